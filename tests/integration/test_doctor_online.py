"""The doctor asks a GitHub, a broker and a database that answer, and ones that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from werkzeug.serving import make_server

from coven.clock import ManualClock
from coven.doctor_online import STEPS, Online, check_online
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.sandbox.hub import Hub
from coven.sandbox.process import SandboxHandle, start_sandbox
from coven.settings.catalogue import CHECKS, check_of
from coven.settings.findings import Finding, Level
from coven.settings.loader import load_settings
from coven.settings.models import Settings
from coven.setup.choices import Choices, parse_site
from coven.setup.flow import Setup
from coven.setup.manifest import NOWHERE
from coven.setup.places import Places
from coven.store import migrate
from coven.store.engine import Store, open_store
from tests.integration.receiver_kit import Bench as Receiver
from tests.support.new_app import confirm

PROGRAM = (sys.executable, "-c", "from coven.cli.main import main; main()")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxHandle]:
    with start_sandbox(tmp_path / "sandbox", in_process=True) as handle:
        yield handle


@pytest.fixture
def settings(tmp_path: Path, sandbox: SandboxHandle) -> Settings:
    """The configuration that setting up wrote, for an App that is installed once."""
    config = tmp_path / "home" / "coven-github.toml"
    clock = ManualClock(datetime.now(UTC))
    flow = Setup(Places(config, Seam()), Seam(), clock, {})
    choices = Choices(
        parse_site(sandbox.base_url), "Cody Doctor", public_url="https://c.example.com"
    )
    form = flow.begin(choices, "http://127.0.0.1:1/setup/callback")
    query = parse_qs(urlsplit(confirm(form.action, form.manifest)).query)
    flow.finish(query["code"][0], query["state"][0])
    sandbox.admin.set_webhook(f"{sandbox.base_url}/webhook", "s" * 20)
    sandbox.admin.create_repository("acme/shop", owner_type="Organization")
    sandbox.admin.install("acme")
    return load_settings(config, {"COVEN_GITHUB__SERVER__STATE_DIR": str(tmp_path / "state")})


def ask(settings: Settings, clock: ManualClock | None = None, **more: object) -> list[Finding]:
    clock = clock or ManualClock(datetime.now(UTC))
    seam = Seam()
    online = Online(settings, GitHub(settings, clock, seam), clock, seam)
    return check_online(replace(online, **more))  # type: ignore[arg-type]


def told(found: list[Finding], *levels: Level) -> dict[str, str]:
    wanted = levels or (Level.ERROR, Level.WARNING)
    return {f.key: f.problem for f in found if f.level in wanted}


def hub(sandbox: SandboxHandle) -> Hub:
    assert sandbox.server is not None
    return sandbox.server.hub


def test_a_fresh_app_is_what_the_code_needs(settings: Settings) -> None:
    found = ask(settings)
    good = told(found, Level.OK)
    for key in ("github.app", "github.clock", "github.permissions", "queue.broker"):
        assert key in good
    assert not told(found, Level.ERROR).keys() - {"github.webhook_answer"}
    assert all(check_of(f.key) in CHECKS for f in found)
    assert all(f.next_step for f in found if f.level is not Level.OK)


def test_what_the_app_lacks_is_named_one_by_one(settings: Settings, sandbox: SandboxHandle) -> None:
    app = hub(sandbox).app
    del app.permissions["checks"]
    app.permissions |= {"contents": "read", "workflows": "write"}
    app.events = tuple(event for event in app.events if event not in ("pull_request", "push"))
    found = ask(settings)
    assert [
        (f.level, f.key, f.problem) for f in found if f.key.startswith(("github.p", "github.e"))
    ] == [
        (Level.ERROR, "github.permissions", "the App lacks checks: write"),
        (Level.WARNING, "github.permissions", "the App lacks contents: write"),
        (Level.ERROR, "github.events", "the App lacks pull_request"),
        (Level.WARNING, "github.events", "the App lacks push"),
        (Level.WARNING, "github.permissions", "nothing here uses workflows: write"),
    ]


@pytest.mark.parametrize(("off", "way"), [(45, "ahead of"), (-45, "behind")])
def test_a_clock_that_goes_wrong_is_measured_against_githubs(
    settings: Settings, off: int, way: str
) -> None:
    found = ask(settings, ManualClock(datetime.now(UTC) + timedelta(seconds=off)))
    assert way in told(found, Level.ERROR)["github.clock"]


def test_the_bot_of_another_app_is_no_familiar_here(settings: Settings) -> None:
    familiars = (settings.familiars[0].model_copy(update={"bot_username": "nova[bot]"}),)
    found = ask(settings.model_copy(update={"familiars": familiars}))
    assert "cody-doctor[bot]" in told(found, Level.ERROR)["familiars[].bot_username"]


def test_a_key_of_another_app_is_an_error_with_a_next_step(settings: Settings) -> None:
    pem = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        .decode()
    )
    github = type(settings.github).model_validate(
        {**settings.github.model_dump(), "private_key": pem}
    )
    found = ask(settings.model_copy(update={"github": github}))
    assert "github.app" in told(found, Level.ERROR)
    assert not any("PRIVATE" in f.problem for f in found)


def test_a_webhook_that_is_off_or_open_is_told(settings: Settings, sandbox: SandboxHandle) -> None:
    for nowhere in (None, NOWHERE):
        hub(sandbox).state.hook.url = nowhere
        assert "nothing arrives" in told(ask(settings), Level.ERROR)["github.webhook_url"]
    hub(sandbox).state.hook.url = f"{sandbox.base_url}/webhook"
    hub(sandbox).state.hook.secret = None
    assert "no secret" in next(
        f.problem for f in ask(settings) if f.key == "github.webhook_url" and f.level is Level.ERROR
    )


def test_another_server_behind_the_address_is_told(settings: Settings) -> None:
    found = told(ask(settings), Level.ERROR)
    assert "which is not this server" in found["github.webhook_answer"]  # the sandbox says 404


def test_our_own_receiver_is_known_by_its_refusal(
    settings: Settings, sandbox: SandboxHandle, sqlite_store: Store
) -> None:
    server = make_server("127.0.0.1", 0, Receiver(sqlite_store).app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        hub(sandbox).state.hook.url = f"http://127.0.0.1:{server.port}/webhook"
        found = ask(settings)
        assert "wants a signature" in told(found, Level.OK)["github.webhook_answer"]
        assert "not to server.public_url" in told(found)["github.webhook_url"]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_silent_address_is_told(settings: Settings, sandbox: SandboxHandle) -> None:
    hub(sandbox).state.hook.url = "http://127.0.0.1:9/webhook"
    assert "does not answer" in told(ask(settings))["github.webhook_answer"]


def test_failed_deliveries_are_told(settings: Settings, sandbox: SandboxHandle) -> None:
    assert told(ask(settings), Level.OK)["github.deliveries"] == "none yet"
    sandbox.admin.ping()
    assert "404" in told(ask(settings), Level.ERROR)["github.deliveries"]
    hub(sandbox).state.hook.url = "http://127.0.0.1:9/webhook"
    sandbox.admin.ping()
    found = [f for f in ask(settings) if f.key == "github.deliveries"]
    assert "can't reach" in found[0].next_step


def test_installations_that_cannot_be_worked_for_are_told(
    settings: Settings, sandbox: SandboxHandle
) -> None:
    (installation,) = [
        i for i in hub(sandbox).state.installations.values() if i.app_id == hub(sandbox).app.id
    ]
    del installation.permissions["pull_requests"]
    assert "acme" in told(ask(settings))["github.installations"]
    hub(sandbox).state.installations.clear()
    assert "nowhere" in told(ask(settings))["github.installations"]


def test_the_database_is_at_this_release_or_it_is_told(settings: Settings) -> None:
    assert "made on first start" in told(ask(settings), Level.OK)["storage.schema"]
    store = open_store(settings.database_url)
    assert "at schema none" in told(ask(settings), Level.ERROR)["storage.schema"]
    migrate.upgrade(store)
    store.close()
    assert "at this release" in told(ask(settings), Level.OK)["storage.schema"]


def test_a_broker_that_is_away_is_told(settings: Settings) -> None:
    queue = type(settings.queue)(broker_url="redis://127.0.0.1:9/0")  # type: ignore[arg-type]
    assert "queue.broker" in told(ask(settings.model_copy(update={"queue": queue})), Level.ERROR)


def test_rules_that_cannot_be_proven_are_told(settings: Settings) -> None:
    store = open_store(settings.database_url)
    migrate.upgrade(store)
    store.close()
    governance = type(settings.governance)(enabled=True)
    assert "governance" in told(
        ask(settings.model_copy(update={"governance": governance})), Level.ERROR
    )


def test_a_github_that_hangs_costs_a_bounded_time(
    settings: Settings, sandbox: SandboxHandle
) -> None:
    sandbox.admin.fault("GET", "^/app$", "delay", seconds=3)
    asked: list[str] = []
    found = ask(settings, step_secs=0.5, progress=asked.append)
    assert told(found, Level.ERROR)["github.app"] == "took longer than 0 s"
    assert asked == list(STEPS)


def test_the_command_answers_in_json_with_progress_beside_it(
    settings: Settings, tmp_path: Path
) -> None:
    config = tmp_path / "home" / "coven-github.toml"
    done = subprocess.run(  # noqa: TID251 - a process of this test
        [*PROGRAM, "doctor", "--config", str(config), "--online", "--json"],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "COVEN_GITHUB__SERVER__STATE_DIR": str(tmp_path / "state")},
    )
    answer = json.loads(done.stdout)
    checks = {finding["check"] for finding in answer["findings"]}
    assert {"github.app", "github.installations", "storage.schema"} <= checks
    assert "asking: github.app" in done.stderr
    assert done.returncode == (1 if answer["errors"] else 0)
    for secret in (config.parent / "secrets").glob("*secret"):
        assert secret.read_text().strip() not in done.stdout + done.stderr
