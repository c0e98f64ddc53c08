"""Memory as people meet it: what runs say of it, what maintainers decide, and what later runs know.

The sandbox runtime reports memory honestly and as an attacker would. The review stands either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store.tasks import Task
from coven.values import TaskState
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, Repo, make_repo, until

pytestmark = [pytest.mark.xdist_group("e2e-memory"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "profile": '"contract-v2"'},
    "server": {"public_url": '"https://coven.example.test"'},
    "memory": {"enabled": "true", "self_hosted": "true", "four_eyes": "true"},
    'memory.repos."acme/quiet"': {"enabled": "false"},
}
FAMILIARS = (
    DemoFamiliar("vera", "vera-familiar", "sandbox:contract-v2,memory-honest"),
    DemoFamiliar("mara", "mara-familiar", "sandbox:contract-v2,memory-malicious"),
)
TOKEN = "ghp_" + "a1B2" * 9


def reviewed(repo: Repo, pull: dict[str, Any], familiar: str, command: str = "review") -> Any:
    """Ask for a review and wait for its own Check Run."""
    head = pull["head"]["sha"]
    repo.say(pull["number"], f"@{familiar}-familiar {command}")
    name = f"{familiar.title()} / review"
    return until(
        f"the review of {familiar}",
        lambda: next(
            (
                run
                for run in repo.runs(head)
                if run["name"] == name and run["conclusion"] in ("success", "neutral")
            ),
            None,
        ),
        60,
    )


def task_of(product: Product, repo: Repo, familiar: str) -> Task:
    """The latest finished task of this familiar in this repository."""
    product.settle()
    with product.store.read() as tx:
        return next(
            task
            for task in list_tasks(tx, None, None, 100)
            if task.familiar_id == familiar
            and str(task.repo) == repo.name
            and task.state is TaskState.COMPLETED
        )


def memory_of(product: Product, repo: Repo, familiar: str) -> dict[str, Any]:
    result = task_of(product, repo, familiar).result or {}
    assert "memory_used" not in result
    memory: dict[str, Any] = result["memory"]
    return memory


def verdicts(memory: dict[str, Any], kind: str) -> list[str | None]:
    return [each["reason"] for each in memory["decisions"] if each["kind"] == kind]


def test_an_honest_report_within_the_grant_is_accepted_and_written_down(
    repo: Repo, product: Product
) -> None:
    key = f"repo/{repo.name}/conventions/names"
    pull = repo.pull({"things/pack.py": f"# {key}\n{BAD_CODE}"}, deliver=False)
    run = reviewed(repo, pull, "vera")
    assert run["annotations"]
    summary = run["output"]["summary"]
    # Nothing stands there in the book, so it is not cited as an entry.
    assert "| Memory read |" not in summary
    assert f"- `{key}` · **used**, not kept here" in summary
    assert "refused" not in summary

    memory = memory_of(product, repo, "vera")
    policy = memory["policy"]
    assert policy["enabled"] is True
    assert policy["trust_scope"] == "maintainer"
    assert policy["read_scopes"] == ["repo", "tenant_shared"]
    assert policy["write_scopes"] == ["repo"]
    assert policy["approval_required"] is True
    assert policy["retention"]["redact_secrets"] is True
    assert policy["repo_scope"]["repo_id"] == repo.state()["id"]
    assert policy["branch_scope"] == {"base_ref": "main", "head_ref": "changes", "same_repo": True}
    assert verdicts(memory, "read") == [None]
    (proposal,) = [each for each in memory["decisions"] if each["kind"] == "proposed"]
    assert proposal["accepted"] is True
    assert proposal["approval"] == "pending"
    assert proposal["target"] == f"repo/{repo.name}/conventions/review-{pull['number']}"
    assert verdicts(memory, "rejected") == ["pii"]
    assert memory["alarms"] == 0


def test_a_malicious_report_is_refused_and_the_review_still_published(
    repo: Repo, product: Product
) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE}, deliver=False)
    run = reviewed(repo, pull, "mara")
    assert run["annotations"]
    summary = run["output"]["summary"]
    assert "3 proposals refused" in summary
    assert "2 reads refused (2 `out_of_scope`)" in summary
    assert "Memory read" not in summary
    assert "somebody-else" not in summary

    memory = memory_of(product, repo, "mara")
    assert verdicts(memory, "read") == ["out_of_scope", "out_of_scope"]
    assert verdicts(memory, "proposed") == ["out_of_scope", "not_addressable", "secret"]
    assert memory["alarms"] == 2
    assert TOKEN not in str(memory)


@pytest.mark.parametrize("familiar", ["vera", "mara"])
def test_the_head_of_a_fork_teaches_nothing_whoever_asks(
    repo: Repo, product: Product, familiar: str
) -> None:
    outsider = f"ann-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(outsider)
    pull = repo.pull(
        {"evil.py": BAD_CODE},
        author=outsider,
        fork=outsider,
        deliver=False,
    )
    run = reviewed(repo, pull, familiar, f"review {pull['head']['sha']}")
    assert run["annotations"]

    memory = memory_of(product, repo, familiar)
    assert memory["policy"]["trust_scope"] == "fork_pr"
    assert memory["policy"]["write_scopes"] == []
    assert memory["policy"]["branch_scope"]["same_repo"] is False
    assert memory["writer"] == "fork_pr"
    proposed = verdicts(memory, "proposed")
    assert proposed == (["out_of_scope"] * 3 if familiar == "mara" else [])


# --- proposals, decisions, citations

ID = re.compile(r"M-[0-9A-Z]{8}")


def lisa(repo: Repo) -> str:
    """A second maintainer: four eyes are wanted here, and mona writes the changes."""
    if "lisa" not in {user["login"] for user in repo.admin.state()["users"]}:
        repo.admin.create_user("lisa")
    repo.admin.set_role(repo.name, "lisa", "write")
    return "lisa"


def stranger(repo: Repo) -> str:
    name = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(name)
    return name


def changes(repo: Repo, name: str, **options: Any) -> dict[str, Any]:
    code = options.pop("code", BAD_CODE)
    files = {f"things/{name}.py": code}
    pull: dict[str, Any] = repo.pull(files, branch=name, deliver=False, **options)
    return pull


def proposal(run: dict[str, Any]) -> str:
    """The id of the one proposal on a Check Run."""
    (found,) = set(ID.findall(run["output"]["summary"]))
    return str(found)


def run_now(repo: Repo, run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in repo.runs() if each["id"] == run["id"])
    return found


def buttons(run: dict[str, Any]) -> list[str]:
    return [action["identifier"] for action in run["actions"]]


def answered(repo: Repo, number: int, words: str) -> str:
    """The reply that holds these words; replies are no status comments."""
    return str(
        until(
            f"a reply with {words!r}",
            lambda: next(
                (
                    body
                    for body in repo.comments(number)
                    if words in body and not body.startswith("**Vera**")
                ),
                None,
            ),
        )
    )


def reacted(repo: Repo, body: str, author: str, wanted: str) -> None:
    def shown() -> bool:
        return any(
            each["body"] == body and each["user"]["login"] == author and each["reactions"][wanted]
            for each in repo.state()["comments"]
        )

    until(f"{wanted} on {body!r} of {author}", shown)


def test_citation_a_proposal_is_shown_approved_supplied_cited_and_taken_back(
    repo: Repo, product: Product
) -> None:
    approver = lisa(repo)
    first = changes(repo, "first")
    run = reviewed(repo, first, "vera")
    name = proposal(run)
    assert buttons(run) == ["mem_approve", "fix", "deepen"]
    comment = repo.wait_comment(first["number"], "One proposal for memory")
    for shown in (run["output"]["summary"], comment):
        assert f"`@vera-familiar approve {name}` or `@vera-familiar deny {name}`" in shown
        assert "Static rules were run on 1 file" in shown

    outsider = stranger(repo)
    repo.say(first["number"], f"@vera-familiar approve {name}", outsider)
    reacted(repo, f"@vera-familiar approve {name}", outsider, "confused")
    # Nobody approves what their own change has taught.
    repo.say(first["number"], f"@familiar approve {name}")
    answered(repo, first["number"], "change of your own")
    assert "mem_approve" in buttons(run_now(repo, run))

    repo.say(first["number"], f"@vera-familiar approve {name}", approver)
    answered(repo, first["number"], f"`{name}` is approved")
    repo.wait_comment(first["number"], "approved by lisa on ")
    until("the button goes", lambda: buttons(run_now(repo, run)) == ["fix", "deepen"])

    second = changes(repo, "second")
    summary = reviewed(repo, second, "vera")["output"]["summary"]
    page = f"[{name}](<https://coven.example.test/ops/memory/"
    assert "**From memory:** 1 entry supplied, 1 reported as used." in summary
    assert page in summary
    assert "approved by lisa on " in summary
    assert "/memory>)" in summary
    assert page in repo.wait_comment(second["number"], "**From memory:**")

    repo.say(second["number"], f"@vera-familiar forget {name}", approver)
    answered(repo, second["number"], "Taken back")
    third = changes(repo, "third")
    summary = reviewed(repo, third, "vera")["output"]["summary"]
    assert name not in summary
    assert "From memory" not in summary
    policy = memory_of(product, repo, "vera")["policy"]
    assert policy["denied"] == [f"repo/{repo.name}/conventions/review-{first['number']}"]


def test_the_button_approves_for_whoever_may_and_a_stranger_clicks_in_vain(repo: Repo) -> None:
    approver, outsider = lisa(repo), stranger(repo)
    pull = changes(repo, "packing")
    run = reviewed(repo, pull, "vera")
    clicked = repo.admin.click(run["id"], "mem_approve", sender=outsider, force=True, deliver=True)
    assert "actor_lacks_write" in clicked.delivered.response
    repo.admin.click(run["id"], "mem_approve", sender=approver, deliver=True)
    repo.wait_comment(pull["number"], "approved by lisa on ")
    until("the button goes", lambda: buttons(run_now(repo, run)) == ["fix", "deepen"])


def test_a_reply_approves_the_one_proposal_once_however_often_it_is_delivered_or_edited(
    repo: Repo, new_repo: Callable[..., Repo]
) -> None:
    approver, other = lisa(repo), new_repo()
    lisa(other)
    pull, far = changes(repo, "packing"), changes(other, "packing")
    run = reviewed(repo, pull, "vera")
    foreign = proposal(reviewed(other, far, "vera"))
    # Our own words, edited by somebody, and ids of another repository approve nothing.
    ours = next(
        each
        for each in repo.state()["comments"]
        if each["number"] == pull["number"] and proposal(run) in each["body"]
    )
    forged = ours["body"].replace(proposal(run), foreign)
    repo.admin.edit_comment(ours["id"], forged, sender="mona", deliver=True)
    repo.say(pull["number"], f"@vera-familiar approve {foreign}", approver)
    answered(repo, pull["number"], "no proposal of this repository")

    said = repo.admin.comment(
        repo.name, pull["number"], "@vera-familiar remember", author=approver, deliver=True
    )
    answered(repo, pull["number"], f"`{proposal(run)}` is approved")
    repo.admin.redeliver(said.delivered.id)
    repo.admin.edit_comment(
        said.id, f"@vera-familiar forget {proposal(run)}", sender=approver, deliver=True
    )
    repo.say(pull["number"], "@vera-familiar memory", approver)
    listed = answered(repo, pull["number"], "**Remembered**")
    assert f"[{proposal(run)}]" in listed
    replies = [body for body in repo.comments(pull["number"]) if "is approved" in body]
    assert len(replies) == 1
    assert "mem_approve" in buttons(next(r for r in other.runs() if r["conclusion"]))


def test_a_changed_text_needs_a_new_approval(repo: Repo) -> None:
    approver = lisa(repo)
    pull = changes(repo, "packing")
    old = proposal(reviewed(repo, pull, "vera"))
    repo.admin.push(repo.name, "packing", {"things/more.py": "import os\n"})
    head = repo.admin.pull(repo.name, pull["number"])["head"]["sha"]
    run = reviewed(repo, pull | {"head": {"sha": head}}, "vera")
    new = next(each for each in ID.findall(run["output"]["summary"]) if each != old)
    repo.say(pull["number"], f"@vera-familiar approve {old}", approver)
    reply = answered(repo, pull["number"], "has changed since it was shown")
    assert new in reply
    repo.say(pull["number"], "@vera-familiar memory", approver)
    assert "**Remembered**" not in answered(repo, pull["number"], "1 proposal waits")


def test_redaction_what_a_maintainer_says_is_screened_and_shown_back(repo: Repo) -> None:
    number = repo.issue("Conventions", "How we work.")
    said = repo.admin.comment(
        repo.name,
        number,
        f"@familiar remember deploy with {TOKEN}",
        author=repo.maintainer,
        deliver=True,
    )
    refused = answered(repo, number, "what looks like a credential")
    assert TOKEN not in refused
    repo.admin.delete_comment(said.id, sender=repo.maintainer)
    repo.say(number, "@familiar remember Money is counted in cents.")
    kept = answered(repo, number, "Remembered as")
    assert "Money is counted in cents." in kept
    repo.say(number, "@familiar forget money is counted")
    answered(repo, number, "Taken back")


def test_external_cannot_write_work_on_a_strangers_text_teaches_nothing(
    repo: Repo, product: Product
) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY, author=stranger(repo))
    repo.say(number, "@mara-familiar fix")
    repo.wait_comment(number, "**done**", 90)
    memory = memory_of(product, repo, "mara")
    assert memory["writer"] == "external"
    assert verdicts(memory, "proposed") == ["out_of_scope"] * 3
    summary = next(run for run in repo.runs() if run["conclusion"])["output"]["summary"]
    assert "3 proposals refused (3 `out_of_scope`)" in summary


def test_memory_disabled_nothing_is_accepted_and_nothing_is_added(product: Product) -> None:
    quiet = make_repo(product, "acme/quiet")
    pull = changes(quiet, "packing")
    run = reviewed(quiet, pull, "mara")
    assert "3 `policy_disabled`" in run["output"]["summary"]
    assert buttons(run) == ["fix", "deepen"]
    assert memory_of(product, quiet, "mara")["policy"]["enabled"] is False
    quiet.say(pull["number"], "@familiar remember Money is counted in cents.")
    answered(quiet, pull["number"], "switched off")
    product.settle()
