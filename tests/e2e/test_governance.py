"""The product under signed rules: work goes on, is stopped, or waits for a person."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from coven.clock import SystemClock
from coven.github.roles import Role
from coven.governance.admin import Admin
from coven.governance.audit import Recorder, verify_store
from coven.governance.defaults import install_defaults
from coven.governance.engine import Engine
from coven.governance.seeds import SEEDS
from coven.store import chain, escalations, tasks
from coven.store.escalations import Escalation
from coven.store.tables import tasks as task_rows
from coven.store.tables_governance import escalations as escalation_rows
from coven.store.tasks import Task
from coven.values import TaskState
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, Repo, running, until
from tests.services import missing

pytestmark = [pytest.mark.xdist_group("e2e-governance"), pytest.mark.timeout(180)]

KEYS = {"governance": {"enabled": "true"}, "worker": {"retry_base_secs": "0.3"}}


def admin_of(product: Product) -> Admin:
    engine = Engine.of(product.stack.settings, product.store, SystemClock())
    return Admin(engine, Recorder(product.store, engine.keys.service()))


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder that is not below /tmp: R001 lets nobody work there."""
    places = [Path.home(), Path(__file__).parents[2], Path.cwd()]
    usable = [
        place
        for place in places
        if os.access(place, os.W_OK) and not re.match(r"/(var/|private/)?tmp(/|$)", str(place))
    ]
    if not usable:
        missing("a folder", "every one that can be written to is below /tmp")
    with tempfile.TemporaryDirectory(prefix=".coven-e2e-", dir=usable[0]) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def product(home: Path) -> Iterator[Product]:
    """Under all shipped rules at once."""
    with running(home, KEYS, start=False) as product:
        admin = admin_of(product)
        admin.engine.keys.generate("operator")
        done = install_defaults(admin)
        assert (done.not_enforced, len(done.enforced)) == ([], len(SEEDS))
        product.stack.start()
        yield product


def task_of(repo: Repo) -> Task:
    """The newest task of the repository."""
    with repo.product.store.read() as tx:
        row = tx.exec_driver_sql(
            "SELECT id FROM tasks WHERE repo_name = ? AND lane != 'control' ORDER BY seq DESC",
            (repo.name.partition("/")[2],),
        ).first()
        assert row is not None
        found = tasks.locate(tx, row[0])
    assert found is not None
    return found


def namespace(repo: Repo, installation: int) -> str:
    return f"installation/{installation}/repo/{repo.name}"


def rule(repo: Repo, rule_id: str, kind: str, matcher: str, severity: str) -> None:
    """A rule for this repository alone, while the product runs."""
    installation = repo.product.installation_of[repo.name.partition("/")[0]]
    admin_of(repo.product).add(
        rule_id, kind, matcher, severity, "for this test", namespace=namespace(repo, installation)
    )


def test_work_goes_on_under_signed_rules_and_all_of_it_is_on_record(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    pull = until("the draft", lambda: next((p for p in repo.pulls() if p["draft"]), None), 60)
    repo.completed(pull["head"]["sha"])
    repo.product.settle()
    task = task_of(repo)
    with repo.product.store.read() as tx:
        mine = chain.of_task(task.installation_id, tx, task.id, 1_000)
    kinds = {kind for row in mine for kind in KINDS if f'"kind":"{kind}"' in row["payload"]}
    assert kinds == set(KINDS)
    keys = admin_of(repo.product).engine.keys.public_keys("service")
    report = verify_store(repo.product.store, keys)
    assert report.ok, report.as_json()


def test_a_review_goes_on_under_all_shipped_rules(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    run = repo.completed(pull["head"]["sha"])
    assert "governance" not in run["output"]["title"].lower()
    section = run["output"]["summary"].partition("### Governance")[2]
    assert re.search(r"Actions: \d+ allowed", section)
    assert re.search(r"Audit record: `\d+:[0-9a-f]{16}`", section)
    repo.product.settle()
    task = task_of(repo)
    assert (task.state, task.attempts_used) == (TaskState.COMPLETED, 1)


KINDS = ("filesystem_write", "process_spawn", "network_request")


def test_a_refused_task_fails_at_once_and_says_which_rule(repo: Repo) -> None:
    root = repo.product.stack.settings.workspace_root
    rule(repo, "X1", "filesystem_write", f'{{"glob":"{root}/**"}}', "refuse")
    before = len(repo.admin.requests())
    known = {token["id"] for token in repo.admin.state()["tokens"]}
    pull = repo.pull({"things/x.py": "x = 1\n"})
    run = repo.completed(pull["head"]["sha"])
    seen = repo.admin.requests(before)
    minted = [token for token in repo.admin.state()["tokens"] if token["id"] not in known]
    showing = (Role.LOOKUP.permissions, Role.PUBLISH.permissions)
    # Each process that publishes has a token of its own; none of them serves a session.
    assert minted, "the verdict was shown"
    assert [t for t in minted if {"metadata": "read"} | t["permissions"] not in showing] == []
    assert "get_repository" not in {each["purpose"] for each in seen}, "not even a second look"
    assert run["conclusion"] == "failure"
    assert run["output"]["title"] == "Blocked by governance: X1"
    assert run["actions"] == []
    assert "for this test" in run["output"]["summary"]
    repo.product.settle()
    task = task_of(repo)
    assert (task.state, task.outcome, task.attempts_used) == (
        TaskState.FAILED,
        "governance_refused",
        1,
    )


def held(repo: Repo, rule_id: str, severity: str = "escalate") -> tuple[Task, Escalation, Any]:
    """A task that waits, what for, and its Check Run."""
    rule(repo, rule_id, "filesystem_write", '{"glob":"**/out"}', severity)
    pull = repo.pull({"things/x.py": "x = 1\n"})
    waiting = until("an escalation", lambda: open_escalation(repo), 60)
    task = until("a waiting task", lambda: waiting_task(repo), 30)
    run = repo.completed(pull["head"]["sha"])
    assert (run["conclusion"], run["output"]["title"]) == (
        "action_required",
        f"Waiting for approval: {rule_id}",
    )
    assert waiting.id in run["output"]["summary"]
    assert [each["identifier"] for each in run["actions"]] == ["gov_approve", "gov_deny"]
    return task, waiting, run


def now(repo: Repo, escalation: Escalation) -> str:
    with repo.product.store.read() as tx:
        found = escalations.get(escalation.installation_id, tx, escalation.id)
    assert found is not None
    return str(found.status)


def test_an_escalated_task_waits_and_goes_on_when_a_person_approves(repo: Repo) -> None:
    task, waiting, run = held(repo, "X2")
    stranger = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    clicked = repo.admin.click(run["id"], "gov_approve", sender=stranger, deliver=True)
    assert "actor_lacks_write" in clicked.delivered.response
    handle = repo.product.stack.settings.familiars[0].handle
    repo.say(task.thread, f"@{handle} approve {waiting.id}", author=stranger)
    assert (now(repo, waiting), task_of(repo).state) == ("pending", TaskState.WAITING)

    repo.say(task.thread, f"@{handle} approve {waiting.id}")
    done = until("the end", lambda: ended_task(repo), 60)
    assert done.state is TaskState.COMPLETED
    assert now(repo, waiting) == "consumed"
    repo.wait_comment(task.thread, "is approved")
    repo.product.settle()
    old = next(each for each in repo.runs() if each["id"] == run["id"])
    assert (old["output"]["title"], old["conclusion"]) == ("Approved: X2", "neutral")


def test_a_denied_task_ends_visibly(repo: Repo) -> None:
    _, waiting, run = held(repo, "X3")
    repo.admin.click(run["id"], "gov_deny", sender="mona", deliver=True)
    done = until("the end", lambda: ended_task(repo), 60)
    assert (done.state, done.outcome) == (TaskState.FAILED, "governance_denied")
    assert now(repo, waiting) == "denied"
    repo.product.settle()
    (ended,) = repo.runs(run["head_sha"])
    assert (ended["output"]["title"], ended["conclusion"]) == ("Denied: X3", "failure")


def test_a_task_that_nobody_answers_is_cancelled_visibly(repo: Repo) -> None:
    task, waiting, run = held(repo, "X4")
    past = SystemClock().now() - timedelta(minutes=1)
    with repo.product.store.write() as tx:
        for table, key in ((task_rows, task.id), (escalation_rows, waiting.id)):
            tx.execute(update(table).where(table.c.id == key).values(expires_at=past))
    done = until("the end", lambda: ended_task(repo), 60)
    assert done.state is TaskState.CANCELLED
    until("an expired escalation", lambda: now(repo, waiting) == "expired", 30)
    repo.product.settle()
    (ended,) = repo.runs(run["head_sha"])
    assert ended["conclusion"] == "cancelled"


def open_escalation(repo: Repo) -> Escalation | None:
    with repo.product.store.read() as tx:
        task = task_of(repo)
        found = escalations.of_task(task.installation_id, tx, task.id)
    return found[0] if found else None


def waiting_task(repo: Repo) -> Task | None:
    task = task_of(repo)
    return task if task.state is TaskState.WAITING else None


def ended_task(repo: Repo) -> Task | None:
    task = task_of(repo)
    return task if task.finished_at is not None else None
