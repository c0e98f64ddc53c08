"""``setup``: register the App on GitHub, keep its key and secrets, write the configuration."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from werkzeug.serving import WSGIRequestHandler, make_server

from coven.cli import exits
from coven.cli.context import ConfigOption
from coven.cli.output import complain, plain, show_json
from coven.cli.probe import backend_report
from coven.clock import SystemClock
from coven.errors import ConfigurationError, CovenError
from coven.governance.wire import Seam
from coven.settings.doctor import diagnose
from coven.settings.findings import Level
from coven.settings.loader import load
from coven.settings.machine import Machine
from coven.setup import choices as ask
from coven.setup.choices import Choices
from coven.setup.convert import CODE_SECS
from coven.setup.flow import Done, Setup, configured_app
from coven.setup.manifest import Grants, manifest
from coven.setup.places import Places, config_path
from coven.setup.web import CALLBACK, Door, quiet_app, register

T = TypeVar("T")

_NEXT = "Go back to the terminal, where the doctor has looked at the result."


def setup(
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(help="github.com, a GitHub Enterprise Server, or SUB.ghe.com.")
    ] = None,
    org: Annotated[
        str | None, typer.Option(help="Organisation that owns the App; else it is your own.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the App; people write @name.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="Where GitHub and people reach this server.")
    ] = None,
    webhook_url: Annotated[
        str | None, typer.Option(help="Where events go, if not to PUBLIC_URL/webhook: a tunnel.")
    ] = None,
    fixes: Annotated[
        bool, typer.Option(help="Whether familiars may push branches (Contents: write).")
    ] = True,
    member_events: Annotated[
        bool, typer.Option("--member-events", help="Hear of changed rights at once (Members).")
    ] = False,
    secrets_dir: Annotated[
        Path | None, typer.Option(help="Folder for key and secrets; ./secrets beside the file.")
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(help="Go on with the code, or the whole address, that GitHub led back to."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the page on this machine; 0: a free one.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take defaults.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the new App in the place of a configured one.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    show_manifest: Annotated[
        bool, typer.Option("--manifest", help="Only print what GitHub would be asked for.")
    ] = False,
) -> None:
    """Register a GitHub App and write the configuration for it, in one go.

    Exit codes: 0 registered, 1 refused or given up, 2 wrong usage or a file that can't be used,
    4 GitHub did not answer (go on with --code).
    """
    places = Places(config_path(config, os.environ, Path.cwd()), Seam(), secrets_dir)
    flow = Setup(places, Seam(), SystemClock(), os.environ)
    interactive = not yes and sys.stdin.isatty()
    if code is not None:
        _end(flow.resume(code), places)
        return
    unfinished = flow.unfinished()
    if unfinished is not None and not show_manifest:
        print("An App was registered earlier; its configuration is written now.")
        _end(flow.complete(unfinished), places)
        return
    grants = Grants(fixes, member_events)
    chosen = Choices(
        _ask("GitHub", host, ask.GITHUB, ask.parse_site, interactive),
        _ask("Name of the App", name, ask.DEFAULT_NAME, ask.parse_name, interactive),
        _ask("Organisation (empty: your own account)", org, "", ask.parse_owner, interactive),
        _ask(
            "Public address of this server (empty: not yet)",
            public_url,
            "",
            ask.parse_public_url,
            interactive and webhook_url is None,
        ),
        ask.parse_webhook_url(webhook_url),
        grants,
    )
    if show_manifest:
        show_json(_manifest(chosen, port))
        return
    _may_replace(places, replace, interactive)
    done = _on_page(flow, chosen, port, browser)
    _end(done, places)


def _ask(
    question: str, given: str | None, default: str, parse: Callable[[str], T], interactive: bool
) -> T:
    """The answer of a flag, else of the person, else the default. Asks again after a bad one."""
    if given is not None or not interactive:
        return parse(default if given is None else given)
    while True:
        try:
            return parse(typer.prompt(question, default=default, show_default=bool(default)))
        except ConfigurationError as error:
            complain(str(error))


def _manifest(chosen: Choices, port: int) -> dict[str, object]:
    return manifest(
        name=chosen.name,
        grants=chosen.grants,
        redirect_url=f"http://127.0.0.1:{port}{CALLBACK}",
        public_url=chosen.public_url,
        webhook_url=chosen.deliveries_to,
    )


def _may_replace(places: Places, replace: bool, interactive: bool) -> None:
    """Nothing that stands in a configuration is changed without being asked."""
    text = places.config_text()
    app = configured_app(text)
    if app and not replace:
        question = f"{places.config} names App {app}. Put a new App in its place?"
        if not interactive or not typer.confirm(question, default=False):
            complain(
                f"{places.config} names App {app} already; use --replace for another App, or "
                "--config for another file"
            )
            raise typer.Exit(exits.UNUSABLE)
    elif text is not None and not app and interactive:
        question = f"{places.config} is there. Add the App to it? (the old one is kept as .bak)"
        if not typer.confirm(question, default=True):
            raise typer.Exit(exits.FAILED)


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Say nothing: addresses hold codes."""


def _on_page(flow: Setup, chosen: Choices, port: int, browser: bool) -> Done:
    """Serve the page on this machine until GitHub has answered, or the hour is over."""
    app, door = quiet_app(), Door()
    ends: list[Done | CovenError] = []
    over = threading.Event()

    def when_over(end: Done | CovenError) -> None:
        ends.append(end)
        over.set()

    try:
        server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
    except (OSError, SystemExit):
        complain(f"port {port} of this machine can't be used; choose another with --port")
        raise typer.Exit(exits.UNUSABLE) from None
    hosts = frozenset({f"127.0.0.1:{server.port}", f"localhost:{server.port}"})
    register(app, flow, door, next_step=_NEXT, preset=chosen, hosts=hosts, when_over=when_over)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.daemon = True
    thread.start()
    address = f"http://127.0.0.1:{server.port}/setup?token={door.token}"
    print(
        f"\nOpen this page within the hour (it works once):\n\n  {address}\n\n"
        "On another machine? Forward the port first: "
        f"ssh -L {server.port}:127.0.0.1:{server.port} THIS-HOST\n"
        "If GitHub leads back to an address that can't be reached, stop here with Ctrl-C and run:\n"
        "  coven-github setup --code 'THAT ADDRESS'\n",
        flush=True,
    )
    if browser and sys.stdout.isatty():
        webbrowser.open(address)
    try:
        if not over.wait(CODE_SECS):
            complain("an hour has passed without an answer; start again with `coven-github setup`")
            raise typer.Exit(exits.FAILED)
    finally:
        server.shutdown()
        server.server_close()
    end = ends[0]
    if isinstance(end, CovenError):
        raise end
    return end


def _end(done: Done, places: Places) -> None:
    """Say what was done, let the doctor look at it, and name the next step."""
    written = done.written
    print(f"\nRegistered: {plain(written.slug)} (App {written.app_id}), bot {written.bot_login}")
    print(f"  key     {written.key_path}\n  secret  {written.webhook_secret_path}")
    print(f"  config  {done.config}\n")
    for note in done.notes:
        print(f"To do: {plain(note)}")
    diagnosis = diagnose(load(places.config), Machine(backend_report=backend_report(places.config)))
    for finding in diagnosis.findings:
        if finding.level is not Level.OK:
            print(f"{finding.level} {finding.key}: {finding.problem}; {finding.next_step}")
    if diagnosis.errors:
        print("\nPut right what the doctor found, then ask it again: coven-github doctor")
    print(f"\nNext: install the App on your repositories: {plain(done.install_url)}")
    print("Then: coven-github doctor --online, and coven-github up")
