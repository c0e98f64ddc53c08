"""Which edits and branches of a session may be published."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coven.errors import ContractViolation
from coven.github.models import Comparison
from coven.values import Sha
from worker.workspace.edits import stays_inside
from worker.workspace.push import verify_branch

START, ONE, TWO = Sha("a" * 40), Sha("b" * 40), Sha("c" * 40)


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a", "b", True),
        ("d/a", "../b", True),
        ("d/a", "../../b", False),
        ("a", "/etc/passwd", False),
        ("a", "../x", False),
        ("a", "d/../../x", False),
        ("a", ".git/config", False),
        ("a", "d/.GIT/config", False),
        ("a", "", False),
        ("a", ".", False),
        ("d/a", "..", False),
        ("d/e/a", "..", True),
    ],
)
def test_a_link_must_stay_below_the_root(path: str, target: str, inside: bool) -> None:
    assert stays_inside(path, target) is inside


@dataclass
class Client:
    refs: dict[str, Sha] = field(default_factory=lambda: {"cody/fix-1-x": TWO})
    found: Comparison = field(default_factory=lambda: Comparison("ahead", 2, 0, (ONE, TWO), START))
    asked: list[tuple[str, str]] = field(default_factory=list)

    def ref(self, branch: str) -> Sha | None:
        return self.refs.get(branch)

    def compare(self, base: str, head: str) -> Comparison:
        self.asked.append((base, head))
        return self.found


def verify(client: Client, branch: str = "cody/fix-1-x", **changes: object) -> object:
    values: dict[str, object] = {
        "reserved": "cody/fix-1-x",
        "familiar_id": "cody",
        "default_branch": "main",
    }
    return verify_branch(client, branch, START, **(values | changes))  # type: ignore[arg-type]


def test_the_reserved_branch_on_top_of_the_start_is_verified_by_id() -> None:
    client = Client()
    found = verify(client, claimed=["b" * 40, "ccccccc"])
    assert (found.sha, found.commits, found.tolerated) == (TWO, (ONE, TWO), ())  # type: ignore[attr-defined]
    assert client.asked == [(START, TWO)]


def test_a_new_branch_of_the_familiar_is_tolerated_and_listed() -> None:
    client = Client(refs={"cody/other": TWO})
    found = verify(client, "cody/other", known_before=["cody/old"])
    assert found.tolerated  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("branch", "changes", "why"),
    [
        ("main", {}, "default branch"),
        ("MAIN", {}, "default branch"),
        ("release", {"protected": ["Release"]}, "protected"),
        ("cody/other", {}, "not new"),
        ("cody/other", {"known_before": ["cody/other"]}, "not new"),
        ("mallory/x", {"known_before": []}, "not the reserved"),
        ("codyx/x", {"known_before": []}, "not the reserved"),
        ("HEAD", {}, "HEAD"),
        ("--upload-pack=touch x", {}, "must"),
        ("../x", {}, "must"),
        ("refs/heads/x", {}, "refs/"),
        ("cody/gone", {"known_before": []}, "does not exist"),
    ],
)
def test_any_other_branch_is_refused(branch: str, changes: dict[str, object], why: str) -> None:
    refs = {"cody/fix-1-x": TWO, "cody/other": TWO, "main": TWO, "mallory/x": TWO}
    with pytest.raises(ContractViolation, match=why):
        verify(Client(refs=refs), branch, **changes)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Comparison("diverged", 2, 1, (ONE, TWO), ONE), "on top"),
        (Comparison("behind", 0, 1, (), TWO), "on top"),
        (Comparison("ahead", 2, 0, (ONE, TWO), ONE), "on top"),
        (Comparison("identical", 0, 0, (), START), "on top"),
        (Comparison("ahead", 251, 0, (ONE, TWO), START), "commits ahead"),
        (Comparison("ahead", 3, 0, (ONE, TWO), START), "commits ahead"),
        (Comparison("ahead", 1, 0, (ONE,), START), "does not end"),
    ],
)
def test_a_branch_that_github_compares_badly_is_refused(found: Comparison, why: str) -> None:
    with pytest.raises(ContractViolation, match=why):
        verify(Client(found=found))


def test_a_branch_without_new_commits_is_refused() -> None:
    with pytest.raises(ContractViolation, match="no new commit"):
        verify(Client(refs={"cody/fix-1-x": START}))


@pytest.mark.parametrize("claim", ["deadbeef", "bbb", "d" * 40, ""])
def test_claimed_commits_must_be_on_the_branch(claim: str) -> None:
    with pytest.raises(ContractViolation, match="is not on branch"):
        verify(Client(), claimed=[claim])


def test_commits_of_the_pull_request_before_the_start_are_tolerated_as_claims() -> None:
    found = verify(Client(), claimed=["e" * 40, "b" * 40], earlier=["e" * 40])
    assert found.tolerated == ("commits: eeeeeeeeeeee was there before the start",)  # type: ignore[attr-defined]
