"""Registering an App against the sandbox GitHub: by page, by terminal, again after a failure."""

from __future__ import annotations

import html
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from playwright.sync_api import sync_playwright
from werkzeug.serving import make_server

from coven.clock import ManualClock
from coven.errors import ConfigurationError, GitHubUnavailable
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.sandbox.process import SandboxHandle, start_sandbox
from coven.settings.loader import load_settings
from coven.setup.choices import Choices, parse_site
from coven.setup.convert import BadCode
from coven.setup.flow import Setup, SetupRefused
from coven.setup.places import PENDING, Places
from coven.setup.web import COOKIE, Door, quiet_app, register
from coven.store.engine import Store
from tests.integration.receiver_kit import Bench as Receiver
from tests.services import missing
from tests.support.new_app import confirm
from webhooks.setup import setup_app

BACK = "http://127.0.0.1:1/setup/callback"
PROGRAM = (sys.executable, "-c", "from coven.cli.main import main; main()")
CHROMIUM = Path(os.environ.get("COVEN_TEST_CHROMIUM", "/usr/bin/chromium"))
PUBLIC = "https://coven.example.com"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHandle]:
    with start_sandbox(tmp_path_factory.mktemp("sandbox"), in_process=True) as handle:
        yield handle


@dataclass
class Bench:
    """One set-up in a folder of its own."""

    folder: Path
    sandbox: SandboxHandle
    clock: ManualClock

    def __post_init__(self) -> None:
        self.config = self.folder / "coven-github.toml"
        self.flow = self.fresh()
        site = parse_site(self.sandbox.base_url)
        self.choices = Choices(site, f"Cody {self.folder.name}"[:34], public_url=PUBLIC)

    def fresh(self) -> Setup:
        """Another process over the same files."""
        return Setup(Places(self.config, Seam()), Seam(), self.clock, {})

    def answer(self, choices: Choices | None = None) -> tuple[str, str, str]:
        """The address that GitHub leads back to, its code and its state."""
        form = self.flow.begin(choices or self.choices, BACK)
        where = confirm(form.action, form.manifest)
        query = parse_qs(urlsplit(where).query)
        return where, query["code"][0], query["state"][0]

    def files(self) -> dict[str, str]:
        """Every file, by its name, with its mode."""
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in found}


@pytest.fixture
def bench(tmp_path: Path, sandbox: SandboxHandle) -> Bench:
    folder = tmp_path / f"b{os.urandom(3).hex()}"
    folder.mkdir()
    return Bench(folder, sandbox, ManualClock(datetime.now(UTC)))


def test_the_new_app_works_and_its_secrets_are_for_nobody_else(bench: Bench) -> None:
    _, code, state = bench.answer()
    done = bench.flow.finish(code, state)
    settings = load_settings(bench.config, {})
    assert settings.github.app_id == done.written.app_id
    assert settings.server.public_url == PUBLIC
    assert [f.bot_username for f in settings.familiars] == [done.written.bot_login]
    github = GitHub(settings, bench.clock, Seam())
    assert github.app_info().slug == done.written.slug
    slug = done.written.slug
    assert bench.files() == {
        "coven-github.toml": "0o600",
        ".gitignore": "0o644",
        f"{slug}.private-key.pem": "0o600",
        f"{slug}.webhook-secret": "0o600",
        f"{slug}.client-secret": "0o600",
    }
    assert stat.S_IMODE((bench.folder / "secrets").stat().st_mode) == 0o700
    assert done.install_url == f"{bench.sandbox.base_url}/apps/{slug}/installations/new"


def test_nothing_secret_is_in_what_is_shown_or_in_the_configuration(bench: Bench) -> None:
    _, code, state = bench.answer()
    done = bench.flow.finish(code, state)
    secrets = [p.read_text().strip() for p in (bench.folder / "secrets").glob("*.*")][0:4]
    shown = repr(done) + bench.config.read_text()
    for secret in secrets:
        for line in secret.splitlines():
            assert len(line) < 8 or line not in shown


@pytest.mark.parametrize("state", ["", "wrong", "é"])
def test_an_answer_with_another_state_changes_nothing(bench: Bench, state: str) -> None:
    _, code, _ = bench.answer()
    with pytest.raises(SetupRefused):
        bench.flow.finish(code, state)
    assert not bench.config.exists()


def test_an_answer_counts_once(bench: Bench) -> None:
    where, code, state = bench.answer()
    bench.flow.finish(code, state)
    with pytest.raises(SetupRefused):
        bench.flow.finish(code, state)
    with pytest.raises(SetupRefused, match="nothing is under way"):
        bench.fresh().resume(where)


def test_only_the_newest_registration_is_answered(bench: Bench) -> None:
    _, code, state = bench.answer()
    bench.flow.begin(bench.choices, BACK)
    with pytest.raises(SetupRefused):
        bench.flow.finish(code, state)


def test_an_hour_is_the_end(bench: Bench) -> None:
    _, code, state = bench.answer()
    bench.clock.advance(timedelta(hours=1, seconds=1).total_seconds())
    with pytest.raises(BadCode, match="start again"):
        bench.flow.finish(code, state)


@pytest.mark.parametrize("code", ["", "../../app", "a" * 300, "0" * 40])
def test_a_code_that_is_none_is_refused(bench: Bench, code: str) -> None:
    _, _, state = bench.answer()
    with pytest.raises(BadCode, match="start again"):
        bench.flow.finish(code, state)
    assert not bench.config.exists()


def test_when_github_is_away_another_process_goes_on_with_the_address(bench: Bench) -> None:
    where, code, state = bench.answer()
    bench.sandbox.admin.fault("POST", "/app-manifests/", "status", status=503)
    with pytest.raises(GitHubUnavailable) as failed:
        bench.flow.finish(code, state)
    assert code not in str(failed.value)
    with pytest.raises(SetupRefused, match="another registration"):
        bench.fresh().resume(where.replace(state, "other"))
    done = bench.fresh().resume(where)
    assert load_settings(bench.config, {}).github.app_id == done.written.app_id
    assert PENDING not in bench.files()


def test_the_bare_code_is_enough(bench: Bench) -> None:
    _, code, _ = bench.answer()
    bench.fresh().resume(code)
    assert bench.config.exists()


def test_a_configuration_that_cannot_be_written_is_finished_later(bench: Bench) -> None:
    _, code, state = bench.answer()
    bench.config.mkdir()  # somebody makes a folder of that name meanwhile
    with pytest.raises(ConfigurationError):
        bench.flow.finish(code, state)
    bench.config.rmdir()
    later = bench.fresh()
    unfinished = later.unfinished()
    assert unfinished is not None
    done = later.complete(unfinished)
    github = GitHub(load_settings(bench.config, {}), bench.clock, Seam())
    assert github.app_info().slug == done.written.slug


def test_an_existing_configuration_keeps_all_else_and_a_copy(bench: Bench) -> None:
    old = (
        '# ours\n[server]\nbind = "127.0.0.1:9999"\n\n[github]\nwebhook_secret = "old-old-old"\n'
        'app_id = 7 # old\n\n[[familiars]]\nid = "nova"\ndisplay_name = "Nova"\n'
        'bot_username = "nova[bot]"\n'
    )
    bench.config.write_text(old)
    _, code, state = bench.answer()
    done = bench.flow.finish(code, state)
    settings = load_settings(bench.config, {})
    assert settings.server.bind == "127.0.0.1:9999"
    assert settings.github.app_id == done.written.app_id
    assert "# ours" in bench.config.read_text()
    assert "old-old" not in bench.config.read_text()
    assert bench.config.with_name("coven-github.toml.bak").read_text() == old
    assert any("bot_username" in note for note in done.notes)


def test_a_style_that_cannot_be_edited_is_said_before_github_is_asked(bench: Bench) -> None:
    bench.config.write_text("github.app_id = 3\n")
    with pytest.raises(ConfigurationError, match="--config"):
        bench.flow.begin(bench.choices, BACK)


def test_a_folder_that_others_may_write_in_holds_no_key(bench: Bench) -> None:
    (bench.folder / "secrets").mkdir()
    (bench.folder / "secrets").chmod(0o777)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        bench.flow.begin(bench.choices, BACK)


def test_a_place_that_cannot_be_written_is_said_before_github_is_asked(bench: Bench) -> None:
    (bench.folder / "secrets").write_text("a file")
    with pytest.raises(ConfigurationError, match="can't be written"):
        bench.flow.begin(bench.choices, BACK)


def test_an_organisation_owns_the_app_and_no_fixes_means_reading_only(bench: Bench) -> None:
    grants = replace(bench.choices.grants, fixes=False)
    choices = replace(bench.choices, owner="acme", grants=grants, public_url=None)
    _, code, state = bench.answer(choices)
    done = bench.flow.finish(code, state)
    assert bench.sandbox.server is not None
    hub = bench.sandbox.server.hub
    assert hub.app.permissions["contents"] == "read"
    assert hub.state.users[hub.app.owner_id].login == "acme"
    assert any("webhook is off" in note for note in done.notes)


# --- the pages -------------------------------------------------------------------------------


@dataclass
class Site:
    """The pages on a port of this machine."""

    base: str
    token: str


@pytest.fixture
def site(bench: Bench) -> Iterator[Site]:
    app, door = quiet_app(), Door()
    server = make_server("127.0.0.1", 0, app, threaded=True)
    hosts = frozenset({f"127.0.0.1:{server.port}"})
    register(app, bench.flow, door, next_step="Go.", preset=bench.choices, hosts=hosts)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield Site(f"http://127.0.0.1:{server.port}", door.token)
    server.shutdown()
    server.server_close()
    thread.join()


def browse(site: Site) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    page = session.get(f"{site.base}/setup?token={site.token}")
    assert page.status_code == 200, page.text
    assert site.token not in page.url
    return session


def test_the_page_is_for_whoever_has_the_token_and_once(site: Site) -> None:
    assert requests.get(f"{site.base}/setup").status_code == 403
    assert requests.get(f"{site.base}/setup?token=guess").status_code == 403
    browse(site)
    assert requests.get(f"{site.base}/setup?token={site.token}").status_code == 403


def test_another_name_for_this_machine_is_not_answered(site: Site) -> None:
    session = browse(site)
    there = session.get(f"{site.base}/setup", headers={"Host": "evil.example.com"})
    assert there.status_code == 403


def test_a_stranger_cannot_answer_in_the_operators_place(bench: Bench, site: Site) -> None:
    browse(site)
    _, code, state = bench.answer()
    answer = requests.get(
        f"{site.base}/setup/callback", params={"code": code, "state": state}, timeout=20
    )
    assert answer.status_code == 403
    assert not bench.config.exists()


def test_hostile_text_from_the_address_stays_text(site: Site) -> None:
    session = browse(site)
    page = session.get(f"{site.base}/setup/callback", params={"code": "<script>", "state": "<b>"})
    assert page.status_code == 400
    assert "<script>" not in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_the_receiver_without_an_app_asks_and_registers(bench: Bench) -> None:
    door = Door()
    app = setup_app(bench.config, {}, door)
    client = app.test_client()
    assert client.post("/webhook", data=b"{}").status_code == 503
    assert client.get("/healthz").status_code == 200
    assert client.get("/setup").status_code == 403
    client.get(f"/setup?token={door.token}")
    asked = client.get("/setup").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', asked)
    assert csrf is not None
    answers = {"host": bench.sandbox.base_url, "owner": "", "name": bench.choices.name}
    assert client.post("/setup", data={**answers, "csrf": "no"}).status_code == 403
    wrong = client.post("/setup", data={**answers, "csrf": csrf[1], "name": "<x>"})
    assert (wrong.status_code, "no usable name" in wrong.text) == (400, True)
    page = client.post("/setup", data={**answers, "csrf": csrf[1], "fixes": "1"}).text
    where = urlsplit(follow(page))
    done = client.get(f"{where.path}?{where.query}")
    assert done.status_code == 200
    assert "installations/new" in done.text
    assert client.get("/setup").status_code == 403, "over"
    assert load_settings(bench.config, {}).github.app_id


def test_a_real_browser_gets_from_the_token_to_the_new_app(bench: Bench, site: Site) -> None:
    if not CHROMIUM.exists():
        missing("chromium", f"there is no {CHROMIUM}; apt-get install chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        blocked: list[str] = []
        page.on("console", lambda said: blocked.append(said.text))
        page.goto(f"{site.base}/setup?token={site.token}")
        assert page.locator("dd").first.text_content() == bench.sandbox.base_url
        page.get_by_role("button", name="Register the App").click()
        assert page.get_by_label("GitHub App name").input_value() == bench.choices.name
        page.get_by_role("button", name="Create GitHub App").click()
        page.get_by_role("heading", name="Registered").wait_for()
        link = page.get_by_role("link", name="Install the App")
        assert link.get_attribute("href").endswith("/installations/new")
        browser.close()
    assert blocked == [], "nothing that the pages' own policy forbids"
    assert load_settings(bench.config, {}).github.app_id


def test_the_real_receiver_offers_setup_only_while_it_has_no_app(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "coven-github.toml").write_text(f"[server]\nbind = '127.0.0.1:{port}'\n")
    process = subprocess.Popen(  # noqa: TID251 - a process of this test
        [*PROGRAM, "web"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        address = next(line.strip() for line in process.stderr or () if "/setup?token=" in line)
        session = requests.Session()
        session.trust_env = False
        assert "Register a GitHub App" in session.get(address).text
        assert session.post(f"http://127.0.0.1:{port}/webhook", data=b"{}").status_code == 503
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_receiver_with_an_app_has_no_such_page(sqlite_store: Store) -> None:
    client = Receiver(sqlite_store).client
    for address in ("/setup", "/setup?token=x", "/setup/callback?code=a&state=b"):
        assert client.get(address).status_code == 404


# --- the terminal ----------------------------------------------------------------------------


def run(folder: Path, *words: str) -> Any:
    return subprocess.Popen(  # noqa: TID251 - a process of this test
        [*PROGRAM, "setup", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_terminal_registers_and_names_the_next_step(bench: Bench) -> None:
    process = run(
        bench.folder, "--host", bench.sandbox.base_url, "--name", bench.choices.name, "-y"
    )
    assert process.stdout is not None
    address = ""
    for line in process.stdout:
        if "/setup?token=" in line:
            address = line.strip()
            break
    session = requests.Session()
    session.trust_env = False
    where = follow(session.get(address).text)
    assert session.get(where).status_code == 200
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "/installations/new" in out
    assert COOKIE not in out
    for secret in (bench.folder / "secrets").glob("*secret"):
        assert secret.read_text().strip() not in out + err
    again = run(bench.folder, "--host", bench.sandbox.base_url, "-y")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 2
    assert "--replace" in err
    assert "setup?token" not in out


def test_the_terminal_ends_when_github_refuses_for_good(bench: Bench) -> None:
    bench.sandbox.admin.fault("POST", "/app-manifests/", "status", status=422, message="Taken")
    name = bench.choices.name
    process = run(bench.folder, "--host", bench.sandbox.base_url, "--name", name, "-y")
    address = next(line.strip() for line in process.stdout if "/setup?token=" in line)
    session = requests.Session()
    session.trust_env = False
    assert session.get(follow(session.get(address).text)).status_code == 400
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Taken" in err) == (1, True)


def follow(page: str) -> str:
    """Post the form of a page to GitHub and confirm; where it leads back to."""
    action = re.search(r'action="([^"]+)"', page)
    manifest = re.search(r'name="manifest" value="([^"]+)"', page)
    assert action is not None
    assert manifest is not None
    return confirm(html.unescape(action[1]), html.unescape(manifest[1]))


def test_the_terminal_says_what_is_wrong_in_one_line(bench: Bench) -> None:
    process = run(bench.folder, "--host", "http://github.com", "-y")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    process = run(bench.folder, "--code", "nothing")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "nothing is under way" in err) == (1, True)
