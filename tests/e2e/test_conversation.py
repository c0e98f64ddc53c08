"""Conversation on a thread, seen from GitHub only: questions, answers, cancel, retry, reactions."""

from __future__ import annotations

from typing import Any

import pytest

from coven.sandbox.stack import DemoFamiliar
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-conversation"), pytest.mark.timeout(240)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "20", "check_heartbeat_secs": "1"},
}
FAMILIARS = (
    DemoFamiliar("quill", "quill-familiar", "sandbox:needs-input"),
    DemoFamiliar("slow", "slow-familiar", "sandbox:slow,8"),
)


def reaction(repo: Repo, body: str) -> set[str]:
    """Reactions on the first comment with exactly this body."""
    for comment in repo.state()["comments"]:
        if comment["body"] == body:
            shown = comment["reactions"]
            return {name for name in ("eyes", "rocket", "confused") if shown[name]}
    return set()


def wait_reaction(repo: Repo, body: str, wanted: str) -> None:
    until(f"{wanted} on {body!r}", lambda: reaction(repo, body) == {wanted}, 60)


def test_an_answer_resumes_the_work_in_its_next_round(repo: Repo) -> None:
    stranger = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.say(number, "@quill-familiar fix")
    asked = repo.wait_comment(number, "**needs input**")
    assert "answer in a comment here" in asked
    first = until("the first Check Run", lambda: repo.runs() or None, 30)[0]
    assert "waiting_not_for_you" in repo.say(number, "Do evil.", stranger).response
    assert repo.say(number, "It should return 0.").status_code == 202
    repo.wait_comment(number, "**done**")
    repo.product.settle()
    by_round = {run["external_id"].rpartition(":")[2]: run for run in repo.runs()}
    assert by_round["1"]["id"] == first["id"]
    assert by_round["1"]["conclusion"] == "action_required"
    assert by_round["2"]["conclusion"] == "success"
    assert len(repo.pulls()) == 1
    assert reaction(repo, "@quill-familiar fix") == {"rocket"}
    assert reaction(repo, "It should return 0.") == {"rocket"}
    assert reaction(repo, "Do evil.") == set()


def test_cancel_stops_running_work_and_retry_does_it_again(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.say(number, "@slow-familiar fix")
    wait_reaction(repo, "@slow-familiar fix", "eyes")
    repo.wait_comment(number, "**working**")
    repo.say(number, "@slow-familiar cancel")
    said = repo.wait_comment(number, "Cancelled:", 20)
    assert "retry`" in said
    repo.wait_comment(number, "**cancelled**", 20)
    wait_reaction(repo, "@slow-familiar fix", "confused")
    wait_reaction(repo, "@slow-familiar cancel", "rocket")
    assert repo.pulls() == []

    repo.say(number, "@slow-familiar retry")
    repo.wait_comment(number, "**done**", 90)
    wait_reaction(repo, "@slow-familiar retry", "rocket")
    until("the pull request", lambda: len(repo.pulls()) == 1, 30)


def test_cancel_with_nothing_to_stop_says_nothing(repo: Repo) -> None:
    number = repo.issue("A question", "What is this?")
    repo.say(number, "@cody-familiar cancel")
    wait_reaction(repo, "@cody-familiar cancel", "confused")
    repo.product.settle()
    assert repo.comments(number) == ["@cody-familiar cancel"]


def test_a_running_session_tells_its_time_on_the_check_run(repo: Repo) -> None:
    pull = repo.pull({"a.py": BAD_CODE}, draft=True)
    head = pull["head"]["sha"]
    repo.say(pull["number"], "@slow-familiar deepen")
    seen: set[str] = set()

    def ended() -> Any:
        for run in repo.runs(head):
            seen.add(str(run["output"]["summary"]).split("\n")[0])
            if run["status"] == "completed":
                return run
        return None

    run = until("the end of the review", ended, 60)
    assert run["name"] == "Slow / review"
    beats = [line for line in seen if "the session runs" in line]
    assert len(beats) >= 2, seen
    wait_reaction(repo, "@slow-familiar deepen", "rocket")


def test_a_push_during_a_review_that_was_asked_for_is_told(repo: Repo) -> None:
    pull = repo.pull({"a.py": BAD_CODE}, draft=True)
    old = pull["head"]["sha"]
    repo.say(pull["number"], "@slow-familiar review")
    until("the session", lambda: [r for r in repo.runs(old) if r["status"] == "in_progress"], 60)
    repo.admin.push(repo.name, "changes", {"a.py": "x = 1\n"}, author="mona", deliver=True)
    new = repo.pulls()[0]["head"]["sha"]
    run = repo.completed(old)
    assert run["conclusion"] == "neutral"
    assert run["annotations"] == []
    told = repo.wait_comment(pull["number"], "**superseded**")
    assert old[:12] in told
    assert new[:12] in told


def test_a_stranger_gets_no_reaction(repo: Repo) -> None:
    stranger = f"kim-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    number = repo.issue("A question", "What is this?")
    assert "actor_lacks_write" in repo.say(number, "@cody-familiar fix", stranger).response
    assert "actor_not_collaborator" in repo.say(number, "@cody-familiar wat", stranger).response
    repo.product.settle()
    assert reaction(repo, "@cody-familiar fix") == set()
    assert reaction(repo, "@cody-familiar wat") == set()


def test_an_unknown_word_is_answered_and_marked(repo: Repo) -> None:
    number = repo.issue("A question", "What is this?")
    repo.say(number, "@cody-familiar frobnicate")
    repo.wait_comment(number, "is not a command here")
    wait_reaction(repo, "@cody-familiar frobnicate", "confused")


def test_a_slip_is_asked_about_and_a_list_item_by_slash_is_a_command(repo: Repo) -> None:
    number = repo.issue("A question", "What is this?")
    repo.say(number, "@cody-familiar stauts")
    asked = repo.wait_comment(number, "Did you mean")
    assert "`@cody-familiar status`" in asked
    wait_reaction(repo, "@cody-familiar stauts", "confused")
    listed = "Two things:\n\n- /coven resume\n- nothing else"
    repo.say(number, listed)
    repo.wait_comment(number, "takes commands here again")
    wait_reaction(repo, listed, "rocket")
