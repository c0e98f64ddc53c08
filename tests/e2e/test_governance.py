"""The product under signed rules: work goes on, is stopped, or waits for a person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coven.clock import SystemClock
from coven.governance import escalate
from coven.governance.admin import Admin
from coven.governance.audit import Recorder, verify_store
from coven.governance.defaults import install_defaults
from coven.governance.engine import Engine
from coven.store import chain, escalations, sweeps, tasks
from coven.store.escalations import Escalation
from coven.store.tasks import Task
from coven.values import TaskState
from tests.e2e.kit import FIX_BODY, FIX_TITLE, Product, Repo, running, until

pytestmark = [pytest.mark.xdist_group("e2e-governance"), pytest.mark.timeout(180)]

KEYS = {"governance": {"enabled": "true"}, "worker": {"retry_base_secs": "0.3"}}
RULES = ("R002", "R003", "R004", "R101", "R102", "R103", "R104", "R106", "R107", "R108", "R111")
"""Not R001 and R105: this product lives below /tmp and talks to a GitHub on this machine."""


def admin_of(product: Product) -> Admin:
    engine = Engine.of(product.stack.settings, product.store, SystemClock())
    return Admin(engine, Recorder(product.store, engine.keys.service()))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running(tmp_path_factory.mktemp("product"), KEYS, start=False) as product:
        admin = admin_of(product)
        admin.engine.keys.generate("operator")
        done = install_defaults(admin, RULES)
        assert done.not_enforced == []
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


KINDS = ("filesystem_write", "process_spawn", "network_request")


def test_a_refused_task_fails_at_once_and_says_which_rule(repo: Repo) -> None:
    root = repo.product.stack.settings.workspace_root
    rule(repo, "X1", "filesystem_write", f'{{"glob":"{root}/**"}}', "refuse")
    pull = repo.pull({"things/x.py": "x = 1\n"})
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "failure"
    assert run["output"]["title"] == "Blocked by governance: X1"
    assert "for this test" in run["output"]["summary"]
    repo.product.settle()
    task = task_of(repo)
    assert (task.state, task.outcome, task.attempts_used) == (
        TaskState.FAILED,
        "governance_refused",
        1,
    )


def test_an_escalated_task_waits_and_goes_on_when_a_person_approves(repo: Repo) -> None:
    rule(repo, "X2", "filesystem_write", '{"glob":"**/out"}', "escalate")
    pull = repo.pull({"things/x.py": "x = 1\n"})
    waiting = until("an escalation", lambda: open_escalation(repo), 60)
    task = until("a waiting task", lambda: waiting_task(repo), 30)
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "action_required"
    assert run["output"]["title"] == "Waiting for approval: X2"
    assert waiting.id in run["output"]["summary"]
    admin = admin_of(repo.product)
    decided = escalate.decide(
        admin.recorder, SystemClock(), task.installation_id, waiting.id, "approve", "mona"
    )
    assert decided is not None
    done = until("the end", lambda: ended_task(repo), 60)
    assert done.state is TaskState.COMPLETED
    with repo.product.store.read() as tx:
        used = escalations.get(task.installation_id, tx, waiting.id)
    assert used is not None
    assert used.status == "consumed"


def open_escalation(repo: Repo) -> Escalation | None:
    with repo.product.store.read() as tx:
        found = escalations.listed(task_of(repo).installation_id, tx)
    return found[0] if found else None


def waiting_task(repo: Repo) -> Task | None:
    with repo.product.store.read() as tx:
        found = sweeps.waiting_for(tx, "escalation")
    return found[0] if found else None


def ended_task(repo: Repo) -> Task | None:
    task = task_of(repo)
    return task if task.finished_at is not None else None
