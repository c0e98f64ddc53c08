"""``deliveries``: what GitHub told us, and what was decided."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from coven.bootstrap import build_services
from coven.cli import exits, ledger, replay
from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.output import complain, plain, show_json, show_table
from coven.recovery import recover_deliveries
from coven.settings.loader import load_settings
from coven.tenancy import redelivery

app = typer.Typer(help="Look at webhook deliveries.", no_args_is_help=True)


@app.command("list")
def list_(
    installation: Annotated[int | None, typer.Option(help="Of this installation only.")] = None,
    routing: Annotated[
        str | None, typer.Option(help="Whose routing begins so: task, ignored, rejected:…")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, newest first."""
    with opened_store(config) as store, store.read() as tx:
        found = ledger.list_deliveries(tx, installation, routing, limit)
    if as_json:
        show_json([asdict(delivery) for delivery in found])
        return
    show_table(
        ["RECEIVED", "DELIVERY", "EVENT", "REPOSITORY", "SENDER", "SEEN", "ROUTING"],
        [
            (
                d.received_at,
                d.id,
                f"{d.event}.{d.action}" if d.action else d.event,
                d.repo_name,
                d.sender_login,
                d.seen,
                d.routing,
            )
            for d in found
        ],
        "No deliveries.",
    )


@app.command("recover")
def recover(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Look at the whole window, and ask at once for what failed often."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is missing and ask for nothing.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have deliveries sent again that GitHub could not deliver; upkeep does it every 5 minutes."""
    services = build_services(load_settings(config))
    try:
        done = recover_deliveries(
            services.store,
            services.github,
            services.clock,
            redelivery.window(services.settings.github.api_base_url),
            everything=everything,
            dry_run=dry_run,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
    finally:
        services.store.close()
    if as_json:
        show_json(asdict(done))
    else:
        first = "missing" if dry_run else "asked again"
        show_table(
            ["FIRST TRIED", "DELIVERY", "EVENT", "TRIES", "GITHUB SAYS", "RESULT"],
            [
                (
                    missed.first_at,
                    missed.guid,
                    f"{missed.event}.{missed.action}" if missed.action else missed.event,
                    missed.attempts,
                    missed.status,
                    result,
                )
                for result, listed in (
                    (first, done.asked),
                    ("refused by GitHub", done.refused),
                    ("given up; replay it by hand", done.given_up),
                )
                for missed in listed
            ],
            f"Nothing is missing: {done.seen} attempts were looked at."
            if not done.too_young
            else "Nothing is to be asked for now.",
        )
        if done.too_young:
            print(f"{done.too_young} failed lately and are asked for later; --all asks now.")
    if done.refused or done.given_up:
        raise typer.Exit(exits.FAILED)


@app.command("replay")
def replay_(
    what: Annotated[
        str, typer.Argument(help="A file with a payload, or with --known a delivery id.")
    ],
    event: Annotated[
        str | None, typer.Option(help="The event of the file's payload, such as issue_comment.")
    ] = None,
    delivery: Annotated[
        str | None, typer.Option("--id", help="Its delivery id; a new one when absent.")
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="Send a delivery of the ledger again, under its id.")
    ] = False,
    url: Annotated[str | None, typer.Option(help="The receiver, if not on this machine.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a payload to the receiver, signed: what was ignored is routed anew, no task twice."""
    settings = load_settings(config)
    try:
        if known:
            with opened_store(config) as store, store.read() as tx:
                parcel = replay.from_ledger(tx, what)
        elif event is None:
            raise typer.BadParameter("name the event of a file with --event", param_hint="--event")
        else:
            parcel = replay.from_file(Path(what), event, delivery)
    except replay.NotReplayable as problem:
        complain(str(problem))
        raise typer.Exit(exits.NOT_FOUND) from None
    answer = replay.send(settings, parcel, url)
    if as_json:
        show_json(asdict(answer))
    else:
        print(f"{answer.delivery}: {answer.status} {plain(answer.body)}")
    if answer.status >= 300:
        raise typer.Exit(exits.FAILED)
