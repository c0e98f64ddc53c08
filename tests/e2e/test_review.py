"""Reviews, seen from GitHub only."""

from __future__ import annotations

import pytest

from tests.e2e.kit import BAD_CODE, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-review"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "20"},
}


def routed(repo: Repo, number: int, body: str, author: str | None = None) -> str:
    return repo.say(number, body, author).response


def test_a_maintainers_pull_request_is_reviewed_once(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    run = repo.completed(pull["head"]["sha"])
    assert run["name"] == "Cody / review"
    assert run["conclusion"] == "success"
    lines = {(a["path"], a["start_line"]) for a in run["annotations"]}
    assert {("things/pack.py", 4), ("things/pack.py", 5), ("things/pack.py", 6)} <= lines
    repo.wait_comment(pull["number"], "**done**")
    repo.product.settle()
    assert len(repo.runs()) == 1
    assert len(repo.comments(pull["number"])) == 1


def test_a_clean_change_gets_a_clean_verdict_with_its_reason(repo: Repo) -> None:
    pull = repo.pull({"things/sums.py": "def double(value):\n    return value * 2\n"})
    run = repo.completed(pull["head"]["sha"])
    assert run["output"]["title"].startswith("No findings")
    assert run["annotations"] == []


def test_a_new_push_is_reviewed_and_the_old_head_is_not_left_open(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    first = pull["head"]["sha"]
    repo.completed(first)
    pushed = repo.admin.push(
        repo.name, "changes", {"things/pack.py": "x = 1\n"}, author="mona", deliver=True
    )
    second = repo.pulls()[0]["head"]["sha"]
    assert second != first
    assert pushed.deliveries
    repo.completed(second)
    repo.product.settle()
    assert len(repo.runs(first)) == 1
    assert len(repo.runs(second)) == 1
    assert len(repo.comments(pull["number"])) == 1


def test_a_draft_waits_until_it_is_ready(repo: Repo) -> None:
    pull = repo.pull({"a.py": "x = 1\n"}, draft=True)
    assert repo.runs() == []
    repo.admin.change_thread(repo.name, pull["number"], draft=False, sender="mona", deliver=True)
    repo.completed(pull["head"]["sha"])


def test_a_forks_pull_request_waits_for_a_maintainer_who_names_the_commit(repo: Repo) -> None:
    repo.admin.create_user(f"ann-{repo.name.rsplit('-', 1)[1]}")
    outsider = f"ann-{repo.name.rsplit('-', 1)[1]}"
    pull = repo.pull({"evil.py": BAD_CODE}, author=outsider, fork=outsider)
    head = pull["head"]["sha"]
    waiting = repo.completed(head)
    assert waiting["conclusion"] == "action_required"
    assert f"review {head}" in waiting["output"]["summary"]

    assert "actor_lacks_write" in routed(
        repo, pull["number"], f"@cody-familiar review {head}", outsider
    )
    repo.say(pull["number"], f"@cody-familiar review {head}")
    until(
        "the review",
        lambda: [r for r in repo.runs(head) if r["conclusion"] in ("success", "neutral")],
        60,
    )
    repo.wait_comment(pull["number"], "findings")


def test_an_unbound_review_of_an_outsiders_change_is_declined_with_the_command(repo: Repo) -> None:
    outsider = f"bob-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(outsider)
    pull = repo.pull({"evil.py": BAD_CODE}, author=outsider, fork=outsider)
    repo.completed(pull["head"]["sha"])
    repo.say(pull["number"], "@cody-familiar review")
    said = repo.wait_comment(pull["number"], "**declined**")
    assert pull["head"]["sha"] in said


def test_a_maintainers_command_runs_a_review(repo: Repo) -> None:
    pull = repo.pull({"a.py": BAD_CODE}, draft=True)
    repo.say(pull["number"], "@familiar review")
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "success"


@pytest.mark.parametrize(
    "body",
    [
        "> @cody-familiar review",
        "`@cody-familiar review`",
        "```\n@cody-familiar review\n```",
        "<!-- @cody-familiar review -->",
        "mail x@cody-familiar review",
        "@cody-familiar-2 review",
    ],
)
def test_what_is_quoted_or_not_addressed_is_no_command(repo: Repo, body: str) -> None:
    number = repo.issue("A question", "What is this?")
    answer = routed(repo, number, body)
    assert "ignored" in answer
    assert "task" not in answer
    assert repo.comments(number) == [body]


def test_help_and_unknown_words_are_answered_once_in_the_thread(repo: Repo) -> None:
    number = repo.issue("A question", "What is this?")
    repo.say(number, "@cody-familiar help")
    answer = repo.wait_comment(number, "review")
    assert "`@cody-familiar fix" in answer
    repo.product.settle()
    assert len(repo.comments(number)) == 2


def test_a_stranger_gets_no_words(repo: Repo) -> None:
    stranger = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    number = repo.issue("A question", "What is this?")
    answer = routed(repo, number, "@cody-familiar status", stranger)
    assert "actor_not_collaborator" in answer
    assert len(repo.comments(number)) == 1


def test_a_redelivery_of_settled_work_is_a_duplicate(repo: Repo) -> None:
    done = repo.admin.open_pull(
        repo.name, "Change", {"a.py": "x = 1\n"}, branch="b", author="mona", deliver=True
    )
    repo.completed(done.result["head"]["sha"])
    again = repo.admin.redeliver(done.delivered.id)
    assert again.status_code == 200
    assert '"duplicate":true' in again.response.replace(" ", "")
    repo.product.settle()
    assert len(repo.runs()) == 1


def test_a_wrong_signature_is_refused_and_leaves_no_row(repo: Repo) -> None:
    sent = repo.admin.emit("ping", {"zen": "x"}, secret="wrong", guid="forged-guid-1")
    assert sent.status_code == 401
    right = repo.admin.emit("ping", {"zen": "x"}, guid="forged-guid-1")
    assert right.status_code == 200
    assert "pong" in right.response


def test_a_hanging_github_does_not_delay_the_answer(repo: Repo) -> None:
    repo.admin.fault("GET", r".*/collaborators/.*", "delay", seconds=3.0, times=2)
    number = repo.issue("Slow", "What now?")
    delivered = repo.say(number, "@cody-familiar fix it")
    repo.admin.clear_faults()
    assert delivered.status_code == 202
    assert delivered.seconds < 1.6
    repo.wait_comment(number, "**done**")


def test_work_of_a_repository_that_is_renamed_meanwhile_goes_on_under_the_new_name(
    repo: Repo,
) -> None:
    stack = repo.product.stack
    stack.kill("worker")
    pull = repo.pull({"things/pack.py": BAD_CODE})
    new_name = f"{repo.name.rpartition('/')[2]}-renamed"
    repo.admin.rename_repository(repo.name, new_name)
    repo.name = f"{repo.name.rpartition('/')[0]}/{new_name}"
    stack.spawn("worker")
    assert repo.completed(pull["head"]["sha"])["conclusion"] == "success"
    repo.product.settle()
