"""Open pull requests without the review they should have, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from coven.errors import GitHubForbidden, RateLimited
from coven.github.factory import GitHub
from coven.github.models import LabelledIssue, Labelling, PullRequest
from coven.services import Services
from coven.store import installations, recoveries, tasks
from coven.store.engine import Store
from coven.tenancy.facts import Account, InstallationSeen, Repo
from coven.values import InstallationId, RepoId, Sha, TaskState
from tests.integration.test_tenancy_ledgers import GitHubDouble, later, make
from tests.ledger import NOW, TENANT
from worker.sweep_state import sweep_state

HEAD = Sha("a" * 40)


def pull(**changes: Any) -> PullRequest:
    values: dict[str, Any] = {
        "number": 3,
        "title": "A title",
        "body": "",
        "state": "open",
        "draft": False,
        "merged": False,
        "head_sha": HEAD,
        "head_ref": "changes",
        "head_repo_id": RepoId(7),
        "head_repo_full_name": "octo/demo",
        "base_sha": Sha("b" * 40),
        "base_ref": "main",
        "author_id": 2001,
        "author_login": "mona",
        "html_url": "u",
        "updated_at": NOW + timedelta(minutes=30),
    }
    return PullRequest(**(values | changes))


@dataclass
class Hub(GitHubDouble):
    pulls: list[PullRequest] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    issues: dict[str, list[LabelledIssue]] = field(default_factory=dict)
    labellings: dict[tuple[int, str], Labelling] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[int] = field(default_factory=list)

    def for_repo(self, tenant: int, repo: int, *_: Any) -> Hub:
        self.asked.append(repo)
        return self

    def open_pulls(self) -> Iterator[PullRequest]:
        if self.error is not None:
            raise self.error
        yield from self.pulls

    def open_issues(self, label: str, since: datetime) -> Iterator[LabelledIssue]:
        yield from (issue for issue in self.issues.get(label, []) if issue.updated_at >= since)

    def labelled_by(self, number: int, label: str) -> Labelling | None:
        return self.labellings.get((number, label))

    def check_runs(self, sha: str, name: str) -> list[str]:
        assert name == "Cody / review"
        return self.runs


@pytest.fixture
def hub() -> Hub:
    return Hub(pulls=[pull()])


def services_of(store: Store, hub: Hub, folder: Path, **config: Any) -> Services:
    made = make(store, hub, folder, **({"review": {"pull_request": True}} | config))
    with store.write() as tx:
        seen = InstallationSeen(
            Account(9, "octo"), NOW, created=True, repos=(Repo(7, "octo/demo", archived=False),)
        )
        installations.learn(TENANT, tx, seen, NOW)
    later(made, hours=1)
    return replace(made, github=cast(GitHub, hub))


def queued(store: Store) -> list[tasks.Task]:
    with store.read() as tx:
        return tasks.recent(TENANT, tx)


def test_a_missing_review_is_queued_once(store: Store, hub: Hub, tmp_path: Path) -> None:
    services = services_of(store, hub, tmp_path)
    sweep_state(services)
    sweep_state(services)
    (task,) = queued(store)
    assert (task.reason, task.automatic, task.head_sha, task.thread) == (
        "found_open",
        True,
        HEAD,
        3,
    )
    assert task.trust_evidence["source"] == "unavailable"  # the worker looks before it shows
    with store.read() as tx:
        assert [search.asked for search in recoveries.recent(tx)] == [0, 1]


@pytest.mark.parametrize(
    ("rule", "changes", "config"),
    [
        ("a draft", {"draft": True}, {}),
        ("too fresh: its delivery may come", {"updated_at": NOW + timedelta(minutes=50)}, {}),
        ("before the installation was known", {"updated_at": NOW - timedelta(hours=1)}, {}),
        ("by a familiar", {"author_login": "Cody[bot]"}, {}),
        ("closed meanwhile", {"state": "closed"}, {}),
        ("reviews are off", {}, {"review": {"pull_request": False}}),
        ("the lane is off", {}, {"installations": [{"id": 41, "triggers": {"reviews": False}}]}),
        ("nobody serves it", {}, {"installations": [{"id": 41, "familiars": ["nova"]}]}),
    ],
)
def test_what_ought_to_have_no_review_gets_none(
    sqlite_store: Store, hub: Hub, tmp_path: Path, rule: str, changes: Any, config: Any
) -> None:
    hub.pulls = [pull(**changes)]
    sweep_state(services_of(sqlite_store, hub, tmp_path, **config))
    assert queued(sqlite_store) == [], rule


def test_whatever_was_decided_about_a_head_stands(
    sqlite_store: Store, hub: Hub, tmp_path: Path
) -> None:
    services = services_of(sqlite_store, hub, tmp_path)
    sweep_state(services)
    (task,) = queued(sqlite_store)
    with sqlite_store.write() as tx:
        tasks.settle_idle(TENANT, tx, task.id, NOW, tasks.Ending(TaskState.CANCELLED, "stopped"))
    sweep_state(services)
    assert len(queued(sqlite_store)) == 1
    hub.pulls, hub.runs = [pull(head_sha=Sha("c" * 40))], ["a Check Run of ours"]
    sweep_state(services)
    assert len(queued(sqlite_store)) == 1


def test_a_repository_that_refuses_stops_no_other_one(
    sqlite_store: Store, hub: Hub, tmp_path: Path
) -> None:
    services = services_of(sqlite_store, hub, tmp_path)
    with sqlite_store.write() as tx:
        more = InstallationSeen(Account(9, "octo"), NOW, repos=(Repo(8, "octo/two"),))
        installations.learn(InstallationId(41), tx, more, NOW)
    hub.error = GitHubForbidden("no", status=403)
    sweep_state(services)
    assert hub.asked == [7, 8]
    hub.error = RateLimited("slow down", status=429)
    sweep_state(services)
    assert hub.asked == [7, 8, 7]
    with sqlite_store.read() as tx:
        assert recoveries.recent(tx)[0].error == "slow down"


FIXER = {
    "id": "cody",
    "display_name": "Cody",
    "bot_username": "cody[bot]",
    "trigger_labels": ["coven:fix"],
}


def label_issue(hub: Hub, at: datetime = NOW + timedelta(minutes=10), **by: Any) -> None:
    hub.pulls = []
    issue = LabelledIssue(5, "Broken", "It is", False, 2002, "lisa", NOW + timedelta(minutes=20))
    hub.issues["coven:fix"] = [issue]
    who = {"actor_id": 2001, "actor_login": "mona"} | by
    hub.labellings[5, "coven:fix"] = Labelling("labeled", "coven:fix", at=at, **who)


def test_a_labelled_issue_without_work_gets_it_once(store: Store, hub: Hub, tmp_path: Path) -> None:
    label_issue(hub)
    services = services_of(store, hub, tmp_path, familiars=[FIXER])
    sweep_state(services)
    sweep_state(services)
    (task,) = queued(store)
    assert (task.lane, task.verb, task.thread, task.automatic) == ("fix", "fix", 5, False)
    # Whoever set the label is asked about, not whoever wrote the issue.
    assert (task.actor_login, task.author_login) == ("mona", "lisa")
    assert task.trust_evidence["source"] == "unavailable"


@pytest.mark.parametrize(
    ("rule", "label", "config"),
    [
        ("too fresh", {"at": NOW + timedelta(minutes=50)}, {}),
        ("before the installation was known", {"at": NOW - timedelta(hours=1)}, {}),
        ("nobody known set it", {"actor_login": None}, {}),
        ("the lane is off", {}, {"installations": [{"id": 41, "triggers": {"labels": False}}]}),
        ("nobody has that label", {}, {"familiars": [FIXER | {"trigger_labels": ["other"]}]}),
    ],
)
def test_a_label_that_asks_for_nothing_gets_nothing(
    sqlite_store: Store, hub: Hub, tmp_path: Path, rule: str, label: Any, config: Any
) -> None:
    label_issue(hub, **label)
    sweep_state(services_of(sqlite_store, hub, tmp_path, **({"familiars": [FIXER]} | config)))
    assert queued(sqlite_store) == [], rule
