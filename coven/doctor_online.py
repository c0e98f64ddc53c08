"""What can only be found out by asking: GitHub, the broker, the database, the rules.

Nothing is changed. Each step is told before it begins and is over within :data:`STEP_SECS`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import requests
from sqlalchemy.engine import make_url

from coven.bell import CeleryBell
from coven.clock import Clock
from coven.embedded import answers, broker_dir, broker_url, socket_path
from coven.errors import CovenError, GitHubError, GitHubNotFound, GitHubUnauthorised, Retry
from coven.github.factory import GitHub
from coven.github.models import AppRegistration, HookDelivery
from coven.governance.engine import Engine
from coven.governance.wire import Seam, governed_request
from coven.queues import celery_app
from coven.settings.findings import Finding, error, ok, warning
from coven.settings.models import Settings
from coven.setup.manifest import NOWHERE, WEBHOOK_PATH, Grants, events, lacks, surplus
from coven.store import migrate
from coven.store.engine import open_store

STEP_SECS = 20.0
"""Most that one step may take, whatever it waits for."""
ANSWER_SECS = 8.0
"""Most that our own webhook address may take; GitHub itself waits ten seconds."""
SKEW_SECS = 30
"""A clock may be that far from GitHub's: tokens are backdated by a minute."""
SHOWN_INSTALLATIONS = 200
LATE = "try again; if it stays so, look at network, proxy and DNS of this machine"


@dataclass(frozen=True)
class Online:
    """What the steps ask. ``progress`` is told the name of each step."""

    settings: Settings
    github: GitHub
    clock: Clock
    seam: Seam
    progress: Callable[[str], None] = lambda _: None
    step_secs: float = STEP_SECS


Step = Callable[[Online], Iterable[Finding]]


def check_online(online: Online) -> list[Finding]:
    """All findings of all steps. Never raises: a step that fails is a finding."""
    found: list[Finding] = []
    for name, step in STEPS.items():
        online.progress(name)
        found += _bounded(name, step, online)
    return found


def _bounded(name: str, step: Step, online: Online) -> list[Finding]:
    said: list[Finding] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            said.extend(step(online))
        except Exception as problem:  # noqa: BLE001 - said below
            failed.append(problem)

    # A daemon: a step that hangs must not keep the program from ending.
    thread = threading.Thread(target=run, name=f"doctor-{name}", daemon=True)
    thread.start()
    thread.join(online.step_secs)
    if thread.is_alive():
        return [*said, error(name, f"took longer than {online.step_secs:.0f} s", LATE)]
    if failed:
        return [*said, _failure(name, failed[0])]
    return said


def _failure(name: str, problem: BaseException) -> Finding:
    if isinstance(problem, GitHubUnauthorised):
        step = "check github.app_id, the private key and the clock of this machine"
        return error(name, str(problem), step)
    if isinstance(problem, GitHubError) and problem.retry is Retry.BACKOFF:
        return error(name, str(problem), LATE)
    if isinstance(problem, GitHubNotFound):
        return error(name, str(problem), "check github.app_id and github.api_base_url")
    if isinstance(problem, CovenError):
        text, mark, step = str(problem).partition("; ")
        return error(name, text, step if mark else "see docs/operations.md")
    return error(name, f"failed ({type(problem).__name__})", "see docs/operations.md")


def _app(online: Online) -> Iterator[Finding]:
    app = online.github.registration()
    settings = online.settings
    if settings.github.app_id and app.id != settings.github.app_id:
        yield error(
            "github.app_id", f"the key belongs to App {app.id}", f"set github.app_id = {app.id}"
        )
    else:
        yield ok("github.app", f"reached: {app.slug} (App {app.id})")
    yield from _clock(online, app)
    yield from _granted(app)
    bots = {familiar.bot_username.casefold() for familiar in settings.familiars}
    if f"{app.slug}[bot]" not in bots:
        yield error(
            "familiars[].bot_username",
            f"no familiar speaks as this App's bot, {app.slug}[bot]",
            f'set bot_username = "{app.slug}[bot]"',
        )


def _clock(online: Online, app: AppRegistration) -> Iterator[Finding]:
    if app.said_at is None:
        return
    off = round((online.clock.now() - app.said_at).total_seconds())
    if abs(off) > SKEW_SECS:
        way = "ahead of" if off > 0 else "behind"
        yield error(
            "github.clock",
            f"this machine's clock is {abs(off)} s {way} GitHub's",
            "set it right, and keep it so with NTP",
        )
    else:
        yield ok("github.clock", "agrees with GitHub's")


def _granted(app: AppRegistration) -> Iterator[Finding]:
    page = f"{app.html_url} (Edit, Permissions & events)"
    for lack in lacks(app.permissions, app.events):
        kind, _, name = lack.what.partition(" ")
        key = f"github.{kind}s"
        if lack.vital:
            yield error(key, f"the App lacks {name}", f"add it on {page}")
        else:
            yield warning(key, f"the App lacks {name}", f"add it on {page}, or do without")
    if not lacks(app.permissions, app.events):
        yield ok("github.permissions", "permissions and events are those that are used")
    more = surplus(app.permissions)
    if more:
        yield warning(
            "github.permissions",
            f"nothing here uses {', '.join(more)}",
            f"take them away on {page}",
        )


def _hook(online: Online) -> Iterator[Finding]:
    hook = online.github.hook_config()
    if not hook.url or hook.url == NOWHERE:
        yield error(
            "github.webhook_url",
            "the App has no webhook address, so nothing arrives",
            'set URL and "Active" on the App\'s page (docs/getting-started.md shows tunnels)',
        )
        return
    if not hook.has_secret:
        yield error(
            "github.webhook_url",
            "the App's webhook has no secret, so every delivery is refused",
            "put the one of github.webhook_secret into the App's page",
        )
    if hook.insecure_ssl:
        yield warning(
            "github.webhook_url", "certificates are not checked", "switch SSL verification on"
        )
    public = online.settings.server.public_url
    if public is not None and urlsplit(hook.url).netloc != urlsplit(public).netloc:
        yield warning(
            "github.webhook_url",
            f"events go to {_plain(hook.url)}, not to server.public_url",
            "correct one of the two, unless that is a tunnel",
        )
    yield from _answer(online, hook.url)


def _answer(online: Online, url: str) -> Iterator[Finding]:
    """An unsigned request must be refused by our own receiver."""

    def ask() -> tuple[int, str]:
        with requests.Session() as session:
            answer = session.post(
                url, data=b"{}", timeout=ANSWER_SECS, allow_redirects=False, stream=True
            )
            return answer.status_code, answer.raw.read(2_000, decode_content=True).decode(
                "utf-8", "replace"
            )

    try:
        status, body = governed_request(online.seam, "POST", url, ask, point="doctor.webhook")
    except requests.RequestException as problem:
        yield warning(
            "github.webhook_answer",
            f"{_plain(url)} does not answer from here ({type(problem).__name__})",
            "start it with `coven-github up`; if it runs, look at DNS, proxy and firewall",
        )
        return
    if status == 401 and "signature" in body:
        yield ok("github.webhook_answer", f"{_plain(url)} answers, and wants a signature")
    elif status < 300:
        yield warning(
            "github.webhook_answer",
            f"{_plain(url)} takes unsigned deliveries ({status})",
            "fine for a tunnel; else lead the address to this server",
        )
    else:
        yield error(
            "github.webhook_answer",
            f"{_plain(url)} answered {status}, which is not this server",
            f"lead that address, path {WEBHOOK_PATH} included, to server.bind",
        )


def _deliveries(online: Online) -> Iterator[Finding]:
    attempts = online.github.list_hook_deliveries(per_page=20).items
    if not attempts:
        yield ok("github.deliveries", "none yet")
        return
    bad = [attempt for attempt in attempts if not attempt.ok]
    if not attempts[0].ok:
        yield _refused(attempts[0])
    elif bad:
        yield warning(
            "github.deliveries",
            f"{len(bad)} of the last {len(attempts)} attempts failed",
            "run `coven-github deliveries recover`",
        )
    else:
        yield ok("github.deliveries", f"the last {len(attempts)} arrived")


def _refused(attempt: HookDelivery) -> Finding:
    what = f"the last one failed: {_plain(attempt.status)} ({attempt.status_code})"
    if attempt.status_code == 401:
        step = "make github.webhook_secret and the secret on the App's page the same"
    elif attempt.status_code == 0:
        step = "GitHub can't reach the address: look at DNS, certificate and firewall"
    else:
        step = "look at the log of `coven-github web`, then `coven-github deliveries recover`"
    return error("github.deliveries", what, step)


def _installations(online: Online) -> Iterator[Finding]:
    found = list(islice(online.github.list_installations(), SHOWN_INSTALLATIONS))
    if not found:
        yield warning(
            "github.installations",
            "the App is installed nowhere",
            "install it from its page (Install App)",
        )
        return
    live = [installation for installation in found if not installation.suspended]
    more = "+" if len(found) == SHOWN_INSTALLATIONS else ""
    yield ok("github.installations", f"{len(live)}{more} live of {len(found)}{more}")
    for installation in live:
        if any(lack.vital for lack in lacks(installation.permissions, events(Grants()))):
            who = _plain(installation.account_login or str(installation.id))
            yield warning(
                "github.installations",
                f"{who} has not accepted the App's permissions",
                "an owner there approves them in the settings of the installation",
            )


def _broker(online: Online) -> Iterator[Finding]:
    settings = online.settings
    if settings.queue.broker_url is None:
        path = socket_path(broker_dir(settings))
        runs = path.exists() and answers(path)
        yield ok(
            "queue.broker", f"embedded, {'running' if runs else 'started by `coven-github up`'}"
        )
        return
    bell = CeleryBell(celery_app(settings, broker_url(settings)), ANSWER_SECS)
    if bell.answers():
        yield ok("queue.broker", "external, answers")
    else:
        yield error(
            "queue.broker", "does not answer", "start it, or correct queue.broker_url and password"
        )


def _store(online: Online) -> Iterator[Finding]:
    url = make_url(online.settings.database_url)
    local = url.get_backend_name() == "sqlite"
    if local and url.database and not Path(url.database).is_file():
        yield ok("storage.schema", f"{url.database} is made on first start")
        return
    store = open_store(online.settings.database_url)
    try:
        migrate.require_usable(store)
        store.check_writable()
    finally:
        store.close()
    yield ok("storage.schema", f"{'embedded SQLite' if local else 'PostgreSQL'}, at this release")


def _rules(online: Online) -> Iterator[Finding]:
    settings = online.settings
    if not settings.governance.active:
        yield ok("governance", "off")
        return
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        yield warning(
            "governance", "there is no database with rules yet", "run `coven-github db upgrade`"
        )
        return
    store = open_store(settings.database_url)
    try:
        policy = Engine.of(settings, store, online.clock).policy()
    finally:
        store.close()
    number = sum(len(rules) for rules in policy.by_kind.values())
    yield ok("governance", f"{settings.governance.mode}: {number} rules are in force")


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:200]


STEPS: dict[str, Step] = {
    "github.app": _app,
    "github.webhook": _hook,
    "github.deliveries": _deliveries,
    "github.installations": _installations,
    "queue.broker": _broker,
    "storage.schema": _store,
    "governance": _rules,
}
"""Every step by the key that its own failure is reported under."""
