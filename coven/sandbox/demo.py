"""``coven-github demo``: a whole review on this machine, every step checked as it happens.

A sandbox GitHub, the receiver, a session worker, a control worker and beat run as processes of
their own; signed deliveries go over HTTP; git goes over HTTP; the reference runtime reads the code
and reports what it finds. Nothing is faked in between.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from coven.cli.probe import backend_problems
from coven.embedded import die_with_parent
from coven.sandbox import demo_code
from coven.sandbox.client import SandboxAdmin
from coven.sandbox.invariants import broken
from coven.sandbox.stack import Sandbox, Stack, StackFailed, wait_for
from coven.store.engine import Store

REPO = "acme/billing"
MAINTAINER = "mona"
PATIENCE_SECS = 60.0


class StepFailed(RuntimeError):
    """A step of the demo did not hold; the message says which one and what was seen."""


@dataclass
class Demo:
    """One run of the demo over one folder."""

    folder: Path
    console: Console
    timings: list[tuple[str, float]] = field(default_factory=list)
    store: Store | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, say it, and name it when it fails."""
        began = time.monotonic()
        self.console.print(f"[dim]…[/dim] {name}")
        try:
            yield
        except (StackFailed, StepFailed) as error:
            raise StepFailed(f"step “{name}”: {error}") from None
        seconds = time.monotonic() - began
        self.timings.append((name, seconds))
        self.console.print(f"[green]✓[/green] {name} [dim]{seconds:.2f} s[/dim]")


def run(keep: bool = False) -> int:
    """Play the demo. 0: every step held; 1: one did not, and its name is printed."""
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="coven-github-demo-"))
    console.print(
        "[bold]coven-github demo[/bold]: a review, a fix and an answer, all on this machine"
    )
    demo = Demo(folder, console)
    sandbox: subprocess.Popen[bytes] | None = None  # noqa: TID251 - a type
    stack: Stack | None = None
    code = 1
    try:
        with demo.step("Start a GitHub of our own"):
            sandbox, admin, known = start_sandbox(folder / "sandbox")
        stack = Stack(folder / "product", known, backend="bubblewrap")
        with demo.step("Start broker, receiver, workers and beat"):
            stack.prepare()
            problems = backend_problems(stack.config_path, stack.settings)
            if problems:
                stack.backend = "host"
                stack.prepare()
            stack.start()
            demo.store = stack.open_store()
        if problems:
            console.print(
                "[dim]  sessions run with the `host` backend: fine for this code of ours, not for "
                f"other people's (bubblewrap: {problems[0]})[/dim]"
            )
        else:
            console.print("[dim]  sessions run confined by bubblewrap[/dim]")
        play(demo, admin, stack)
        code = 0
    except StepFailed as failed:
        console.print(f"[red]✗ {failed}[/red]", markup=True)
        _show_logs(console, stack)
    except KeyboardInterrupt:
        console.print("stopped")
        code = 130
    finally:
        if keep and code == 0 and stack is not None:
            _stay(console, stack, known.base_url)
        if demo.store is not None:
            demo.store.close()
        if stack is not None:
            stack.stop()
        if sandbox is not None:
            sandbox.terminate()
            sandbox.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)  # noqa: TID251 - the demo's own folder
    return code


def start_sandbox(
    folder: Path,
) -> tuple[subprocess.Popen[bytes], SandboxAdmin, Sandbox]:  # noqa: TID251 - a type
    """Start ``python -m coven.sandbox`` and wait until it answers. Raises ``StackFailed``."""
    folder.mkdir(parents=True)
    process = subprocess.Popen(  # noqa: TID251 - a tool, not receiver or worker
        [sys.executable, "-m", "coven.sandbox", "--state", str(folder)],
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    described = folder / "sandbox.json"
    wait_for("the sandbox's start", lambda: described.exists() or process.poll(), 30)
    if process.poll() is not None:
        raise StackFailed("the sandbox ended at once")
    facts = _json(described)
    admin = SandboxAdmin(facts["base_url"])
    known = Sandbox(facts["base_url"], facts["app_id"], facts["slug"], facts["private_key_path"])
    return process, admin, known


def play(demo: Demo, admin: SandboxAdmin, stack: Stack) -> None:
    """The three stories, each verified. Raises ``StepFailed``."""
    with demo.step("A repository, a maintainer, the App installed"):
        admin.create_user(MAINTAINER)
        admin.create_repository(REPO, files=demo_code.FILES)
        admin.set_role(REPO, MAINTAINER, "write")
        admin.install(REPO.split("/")[0])
        admin.set_webhook(stack.webhook_url, stack.webhook_secret)
    _review(demo, admin)
    _fix(demo, admin)
    _status(demo, admin)
    with demo.step("Nothing lost, nothing twice, nothing left over, no secret anywhere"):
        _at_rest(demo, admin, stack)
    _show_timings(demo)


def _review(demo: Demo, admin: SandboxAdmin) -> None:
    with demo.step("A pull request with real defects; its signed delivery is accepted"):
        pull = admin.open_pull(
            REPO,
            "Add monthly invoices",
            demo_code.CHANGES,
            branch="monthly-invoices",
            body="Adds monthly invoices and a small report.",
            author=MAINTAINER,
            deliver=True,
        )
        _expect("the receiver's answer", pull.delivered.status_code, 202)
        delivered = time.monotonic()
    number, head = pull.number, pull.result["head"]["sha"]
    with demo.step("A queued Check Run on its head"):
        wait_for("the Check Run", lambda: _runs(admin, head), PATIENCE_SECS, 0.02)
        demo.timings.append(("Delivery to Check Run", time.monotonic() - delivered))
    with demo.step("The familiar reviews it"):
        run = _follow(demo, lambda: _one_run(admin, head))
        demo.timings.append(("Delivery to finished review", time.monotonic() - delivered))
    with demo.step("The findings stand on the defects, and the status comment says so"):
        shown = {(a["path"], a["start_line"]) for a in run["annotations"]}
        missing = [place for place in demo_code.DEFECTS if place not in shown]
        if missing:
            raise StepFailed(f"no finding at {missing}; found {sorted(shown)}")
        _expect("the conclusion", run["conclusion"], "success")
        comment = wait_for(
            "the status comment", lambda: _comment(admin, number, "**done**"), PATIENCE_SECS
        )
    _show_run(demo.console, run)
    _show_text(demo.console, f"Status comment on #{number}", comment["body"])


def _fix(demo: Demo, admin: SandboxAdmin) -> None:
    with demo.step("An issue gets the label cody:fix"):
        issue = admin.open_issue(
            REPO, demo_code.ISSUE_TITLE, demo_code.ISSUE_BODY, author=MAINTAINER
        )
        labelled = admin.label(REPO, issue.number, "cody:fix", sender=MAINTAINER, deliver=True)
        _expect("the receiver's answer", labelled.delivered.status_code, 202)
        began = time.monotonic()
    with demo.step("A draft pull request with a verified commit"):
        pull = wait_for(
            "the draft pull request",
            lambda: next((p for p in _pulls(admin) if p["draft"]), None),
            PATIENCE_SECS,
        )
        demo.timings.append(("Label to draft pull request", time.monotonic() - began))
        _expect("its base", pull["base"]["ref"], "main")
        if f"Fixes #{issue.number}" not in pull["body"]:
            raise StepFailed("the pull request does not name its issue")
        before = admin.read_file(REPO, "main", demo_code.FIXED_FILE)
        after = admin.read_file(REPO, pull["head"]["ref"], demo_code.FIXED_FILE)
        if before == after:
            raise StepFailed(f"{demo_code.FIXED_FILE} was not changed on {pull['head']['ref']}")
    _show_text(demo.console, f"Draft pull request #{pull['number']}: {pull['title']}", pull["body"])


def _status(demo: Demo, admin: SandboxAdmin) -> None:
    with demo.step("@cody-familiar status gets an answer"):
        issue = next(i for i in _repo(admin)["issues"] if i["title"] == demo_code.ISSUE_TITLE)
        asked = admin.comment(
            REPO, issue["number"], "@cody-familiar status", author=MAINTAINER, deliver=True
        )
        _expect("the receiver's answer", asked.delivered.status_code, 202)
        reply = wait_for(
            "the answer", lambda: _comment(admin, issue["number"], "| Work |"), PATIENCE_SECS
        )
    _show_text(demo.console, f"Answer on #{issue['number']}", reply["body"])


def _at_rest(demo: Demo, admin: SandboxAdmin, stack: Stack) -> None:
    store = demo.store
    assert store is not None
    settings = stack.settings

    def look() -> list[str]:
        sent = [delivery.__dict__ for delivery in admin.deliveries()]
        state = admin.state()
        return broken(store, settings, state, sent, admin.requests(), stack.state_dir / "logs")

    deadline = time.monotonic() + PATIENCE_SECS
    problems = look()
    while problems and time.monotonic() < deadline:
        time.sleep(0.3)
        problems = look()
    if problems:
        raise StepFailed("; ".join(problems[:5]))


def _follow(demo: Demo, look: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """Print each new state of a Check Run until it is completed."""
    said = ""
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        run = look()
        if run is not None:
            now = f"{run['status']}: {run['output']['title']}"
            if now != said:
                demo.console.print(f"  [cyan]{run['name']}[/cyan] {now}", markup=True)
                said = now
            if run["status"] == "completed":
                return run
        time.sleep(0.05)
    raise StepFailed(f"the review did not finish; last seen {said or 'nothing'}")


def _repo(admin: SandboxAdmin) -> dict[str, Any]:
    found: dict[str, Any] = next(
        repo for repo in admin.state()["repositories"] if repo["full_name"] == REPO
    )
    return found


def _runs(admin: SandboxAdmin, head: str) -> list[dict[str, Any]]:
    return [run for run in _repo(admin)["check_runs"] if run["head_sha"] == head]


def _one_run(admin: SandboxAdmin, head: str) -> dict[str, Any] | None:
    runs = _runs(admin, head)
    if len(runs) > 1:
        raise StepFailed(f"{len(runs)} Check Runs instead of one")
    return runs[0] if runs else None


def _pulls(admin: SandboxAdmin) -> list[dict[str, Any]]:
    pulls: list[dict[str, Any]] = _repo(admin)["pulls"]
    return pulls


def _comment(admin: SandboxAdmin, number: int, text: str) -> dict[str, Any] | None:
    for comment in _repo(admin)["comments"]:
        if comment["number"] == number and text in comment["body"]:
            found: dict[str, Any] = comment
            return found
    return None


def _expect(what: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise StepFailed(f"{what} is {seen!r}, expected {wanted!r}")


def _show_run(console: Console, run: dict[str, Any]) -> None:
    table = Table(title=f"{run['name']}: {run['conclusion']}", title_justify="left")
    for column in ("Severity", "Where", "Finding"):
        table.add_column(column)
    for note in sorted(run["annotations"], key=lambda a: (a["path"], a["start_line"])):
        table.add_row(
            note["annotation_level"], f"{note['path']}:{note['start_line']}", note["title"]
        )
    console.print(table)


def _show_text(console: Console, title: str, body: str) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    visible = body.split("-->", 1)[1].strip() if body.startswith("<!--") else body
    table.add_row(visible)
    console.print(table, markup=False)


def _show_timings(demo: Demo) -> None:
    table = Table(title="Timings", title_justify="left")
    table.add_column("What")
    table.add_column("Seconds", justify="right")
    for what, seconds in demo.timings:
        table.add_row(what, f"{seconds:.2f}")
    demo.console.print(table)


def _show_logs(console: Console, stack: Stack | None) -> None:
    if stack is None:
        return
    for role in ("web", "worker", "control", "beat"):
        console.print(f"[bold]{role}[/bold]\n{stack.log_tail(role, 8)}", markup=False)


def _stay(console: Console, stack: Stack, base_url: str) -> None:
    console.print(
        f"Still running. Look at {base_url}/{REPO}/pull/1 and {base_url}/{REPO}/issues/2, "
        f"or send deliveries to {stack.webhook_url}. Press Ctrl-C to stop."
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.print("stopping")


def _json(path: Path) -> dict[str, Any]:
    import json

    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
