"""What each delivery becomes: one row per rule, each with the name of the rule that it holds."""

from __future__ import annotations

from typing import Any

from tests.support.routing import ABSENT, Case

SHA1, SHA3 = "1" * 40, "3" * 40
BOT = {"login": "renovate[bot]", "id": 77, "type": "Bot"}
OURS = {"login": "cody-familiar[bot]", "id": 9001, "type": "Bot"}
LISA = {"login": "lisa", "id": 2002, "type": "User"}
FOUR = ("cody-familiar review", "cody-familiar fix", "cody-familiar deepen", "nova-familiar fix")
ON = {"commands": {"in_issues": True}}
COMMENT = "issue_comment.created.pull"
PULL = "pull_request.opened"


def said(rule: str, text: str, want: Any, **more: Any) -> Case:
    """A comment on a pull request."""
    changes = {"comment.body": text} | more.pop("changes", {})
    return Case(rule, more.pop("fixture", COMMENT), want, changes, **more)


def edited(rule: str, before: str | None, after: str, want: Any, **changes: Any) -> Case:
    """An edit of a comment; ``before`` None: the edit was not about its text."""
    changed = {} if before is None else {"body": {"from": before}}
    more = {"comment.body": after, "changes": changed} | changes
    return Case(rule, "issue_comment.edited", want, more)


def lane(name: str) -> dict[str, Any]:
    """A configuration with one lane off."""
    return {"installations": [{"id": 42, "triggers": {name: False}}]}


PULLS = [
    Case(
        "automatic review",
        PULL,
        {
            "verb": "review",
            "lane": "review",
            "needs": "STANDING",
            "reason": "opened",
            "familiar": "cody",
            "actor": 2002,
            "key": f"review:555:7:cody:{SHA1}",
            "voided_by": ["closed:7:", "draft:7:"],
            "from_fork": False,
            "external": "ask",
        },
    ),
    *[
        Case("automatic review", PULL, {"verb": "review", "reason": action}, {"action": action})
        for action in ("synchronize", "reopened", "ready_for_review")
    ],
    Case("the standing of the author decides", PULL, {"actor": 2002}, {"sender": BOT}),
    Case("fork", PULL, {"from_fork": True}, {"pull_request.head.repo": {"id": 777}}),
    Case(
        "a deleted head repository is a fork",
        PULL,
        {"from_fork": True},
        {"pull_request.head.repo": None},
    ),
    Case("lane off", PULL, "lane_off:reviews", config=lane("reviews")),
    Case("policy off", PULL, "automatic_review_off", config={"review": {"pull_request": False}}),
    Case(
        "policy of one repository",
        PULL,
        "automatic_review_off",
        config={
            "review": {"pull_request": True, "repos": {"ACME-Inc/billing": {"pull_request": False}}}
        },
    ),
    Case("own pull request by login", PULL, "own_pull_request", {"pull_request.user": OURS}),
    Case(
        "own pull request by id",
        PULL,
        "own_pull_request",
        {"pull_request.user": OURS | {"login": "old-name[bot]"}},
        bot_id=9001,
    ),
    Case(
        "a login alone is not us",
        PULL,
        {"verb": "review"},
        {"pull_request.user": OURS | {"type": "User", "login": "cody-familiar"}},
    ),
    Case(
        "a known id counts and no login",
        PULL,
        {"verb": "review"},
        {"pull_request.user": OURS},
        bot_id=5,
    ),
    Case("draft", PULL, "draft", {"pull_request.draft": True}),
    Case(
        "drafts by policy",
        PULL,
        {"verb": "review", "voided_by": ["closed:7:"]},
        {"pull_request.draft": True},
        {"review": {"include_drafts": True}},
    ),
    Case("reviewer by policy", PULL, {"familiar": "nova"}, config={"review": {"familiar": "nova"}}),
    Case(
        "reviewer not in scope",
        PULL,
        "no_familiar",
        config={
            "review": {"familiar": "nova"},
            "installations": [{"id": 42, "familiars": ["cody"]}],
        },
    ),
    Case("closed thread", PULL, "closed", {"pull_request.state": "closed"}),
    Case("archived", PULL, "repository_archived", {"repository.archived": True}),
    Case(
        "who is allowed here",
        PULL,
        {"familiar": "nova"},
        config={"installations": [{"id": 42, "familiars": ["nova"]}]},
    ),
    Case(
        "listing one never switches off another",
        PULL,
        {"familiar": "cody"},
        config={"installations": [{"id": 43, "familiars": ["nova"]}]},
    ),
    Case("no familiar at all", PULL, "no_familiar", config={"familiars": []}),
    Case(
        "base changed",
        PULL,
        {"verb": "review", "reason": "edited", "key": f"review:555:7:cody:{SHA1}:0d6e4079e367"},
        {"action": "edited", "changes": {"base": {"ref": {"from": "next"}}}},
    ),
    Case(
        "title edited",
        PULL,
        "edit_asks_nothing",
        {"action": "edited", "changes": {"title": {"from": "x"}}},
    ),
    Case(
        "closing cancels automatic reviews",
        PULL,
        {"ignored": "closed:7:1767261600", "effects": ["cancel AUTOMATIC #7"]},
        {"action": "closed", "pull_request.state": "closed"},
    ),
    Case(
        "closing counts in a read-only repository",
        PULL,
        {"effects": ["cancel AUTOMATIC #7"]},
        {"action": "closed", "repository.archived": True},
    ),
    Case(
        "no moment, no mark",
        PULL,
        {"ignored": "closed:7"},
        {"action": "closed", "pull_request.updated_at": None},
    ),
    Case(
        "drafts are not reviewed",
        PULL,
        {"ignored": "draft:7:1767261600", "effects": ["cancel AUTOMATIC #7"]},
        {"action": "converted_to_draft"},
    ),
    Case(
        "drafts by policy",
        PULL,
        {"ignored": "drafts_are_reviewed", "effects": []},
        {"action": "converted_to_draft"},
        {"review": {"include_drafts": True}},
    ),
    Case(
        "who asked is told of a push",
        PULL,
        {"ignored": "automatic_review_off", "effects": ["moved #7 111"]},
        {"action": "synchronize"},
        {"review": {"pull_request": False}},
    ),
    Case(
        "only a push is told",
        PULL,
        {"effects": []},
        {"action": "reopened"},
        {"review": {"pull_request": False}},
    ),
]

LABELS = [
    Case(
        "label on an issue",
        "issues.labeled",
        {
            "verb": "fix",
            "lane": "fix",
            "needs": "WRITE",
            "reason": "labeled",
            "familiar": "cody",
            "actor": 2001,
            "author": 2002,
            "key": "fix:555:3:cody",
            "voided_by": ["closed:3:", "unlabeled:3:coven:fix:"],
        },
    ),
    Case(
        "label of another familiar", "issues.labeled", {"familiar": "nova"}, {"label.name": "NOVA"}
    ),
    Case(
        "first familiar of a shared label",
        "issues.labeled",
        {"familiar": "cody", "verb": "fix"},
        {"label.name": "coven:review"},
    ),
    Case("unknown label", "issues.labeled", "label_not_mapped", {"label.name": "bug"}),
    Case("lane off", "issues.labeled", "lane_off:labels", config=lane("labels")),
    Case("bots label nothing", "issues.labeled", "sender_is_bot", {"sender": BOT}),
    Case(
        "listed bots may",
        "issues.labeled",
        {"verb": "fix", "actor": 77},
        {"sender": BOT},
        {"commands": {"bots": [77]}},
    ),
    Case(
        "never our own bot",
        "issues.labeled",
        "sender_is_bot",
        {"sender": OURS},
        {"commands": {"bots": [9001]}},
    ),
    Case(
        "never our own bot",
        "issues.labeled",
        "sender_is_bot",
        {"sender": OURS | {"login": "x[bot]"}},
        {"commands": {"bots": [9001]}},
        bot_id=9001,
    ),
    Case("nobody labelled", "issues.labeled", "no_sender", {"sender": None}),
    Case("id 0 is nobody", "issues.labeled", "no_sender", {"sender": {"id": 0, "login": "ghost"}}),
    Case("closed thread", "issues.labeled", "closed", {"issue.state": "closed"}),
    Case("archived", "issues.labeled", "repository_archived", {"repository.archived": True}),
    Case(
        "label on a pull request",
        "pull_request.labeled",
        {"verb": "review", "lane": "review", "needs": "WRITE", "key": "review:555:7:cody:cmd"},
        {"label.name": "coven:review"},
    ),
    Case(
        "label means fix",
        "pull_request.labeled",
        {"verb": "fix", "lane": "fix"},
        {"label.name": "coven:fix"},
    ),
    Case(
        "a label is an explicit wish",
        "pull_request.labeled",
        {"verb": "review"},
        {"label.name": "coven:review", "pull_request.draft": True, "pull_request.user": OURS},
        {"review": {"pull_request": False}},
    ),
    Case(
        "label removed",
        "issues.labeled",
        {"ignored": "unlabeled:3:coven:fix:1767258000", "effects": ["cancel TRIGGER #3 labeled"]},
        {"action": "unlabeled"},
    ),
    Case(
        "label removed",
        "pull_request.labeled",
        {"effects": ["cancel TRIGGER #7 labeled"]},
        {"action": "unlabeled", "label.name": "coven:review"},
    ),
    Case(
        "unknown label",
        "issues.labeled",
        {"ignored": "label_not_mapped", "effects": []},
        {"action": "unlabeled", "label.name": "bug"},
    ),
    Case(
        "assignment",
        "issues.assigned",
        {
            "verb": "fix",
            "reason": "assigned",
            "familiar": "cody",
            "voided_by": ["closed:3:", "unassigned:3:cody:"],
        },
    ),
    Case("one wish, one task", "issues.assigned", {"key": "fix:555:3:cody"}),
    Case("assigned to a person", "issues.assigned", "assignee_not_familiar", {"assignee": LISA}),
    Case("assigned to nobody", "issues.assigned", "assignee_not_familiar", {"assignee": None}),
    Case("lane off", "issues.assigned", "lane_off:assignment", config=lane("assignment")),
    Case(
        "assignment of an allowed familiar",
        "issues.assigned",
        "assignee_not_familiar",
        config={"installations": [{"id": 42, "familiars": ["nova"]}]},
    ),
    Case(
        "assignment taken back",
        "issues.assigned",
        {"effects": ["cancel TRIGGER #3 assigned"]},
        {"action": "unassigned"},
    ),
    Case(
        "assignment taken back",
        "issues.assigned",
        {"ignored": "assignee_not_familiar", "effects": []},
        {"action": "unassigned", "assignee": LISA},
    ),
]

ISSUES = [
    Case("commands in issues are off", "issues.opened", "commands_in_issues_off"),
    Case(
        "commands in issues",
        "issues.opened",
        {
            "verb": "fix",
            "args": "the rounding",
            "comment": None,
            "key": "fix:555:3:cody",
            "needs": "WRITE",
            "voided_by": ["closed:3:"],
        },
        config=ON,
    ),
    Case("only its author's words", "issues.opened", "not_the_author", {"issue.user": LISA}, ON),
    Case(
        "no talk in issues",
        "issues.opened",
        "no_work_in_issue_text",
        {"issue.body": "@cody-familiar help"},
        ON,
    ),
    Case(
        "no talk in issues",
        "issues.opened",
        "no_work_in_issue_text",
        {"issue.body": "@cody-familiar reveiw"},
        ON,
    ),
    Case(
        "no review of an issue",
        "issues.opened",
        {"ignored_as": "not_a_pull_request"},
        {"issue.body": "@familiar review"},
        ON,
    ),
    Case(
        "an issue answers nothing",
        "issues.opened",
        {"ignored": "not_addressed", "answers": False},
        {"issue.body": "hello"},
        ON,
    ),
    Case(
        "issue through our App",
        "issues.opened",
        "own_comment",
        {"issue.performed_via_github_app": {"id": 4242}},
        ON,
    ),
    Case(
        "title edited",
        "issues.opened",
        "command_unchanged",
        {"action": "edited", "changes": {"title": {"from": "x"}}},
        ON,
    ),
    Case(
        "command edited in",
        "issues.opened",
        {"verb": "fix", "edited": True},
        {"action": "edited", "changes": {"body": {"from": "x"}}},
        ON,
    ),
    *[
        Case(
            "the end of an issue",
            "issues.opened",
            {"ignored": "closed:3:1767258000", "effects": ["cancel EVERYTHING #3"]},
            {"action": action},
        )
        for action in ("closed", "transferred", "deleted")
    ],
    Case("reopening", "issues.opened", "reopening_asks_nothing", {"action": "reopened"}),
]

WRITE = {"needs": "WRITE", "lane": "fix"}
COMMANDS = [
    said(
        "review on a pull request",
        "@cody-familiar review",
        {
            "verb": "review",
            "lane": "review",
            "needs": "WRITE",
            "key": "review:555:7:cody:cmd",
            "comment": 9002,
            "actor": 2001,
            "reason": "command:review",
            "at": "2026-01-01T11:00:00+00:00",
        },
    ),
    said(
        "deepen",
        "@familiar deepen",
        {"verb": "deepen", "lane": "review", "key": "deepen:555:7:cody"},
    ),
    said(
        "fix carries its words",
        "@familiar fix the tests",
        WRITE | {"verb": "fix", "args": "the tests"},
    ),
    said("retry", "@familiar retry", WRITE | {"verb": "retry"}),
    said("exact commit", f"@familiar review {SHA3}", {"approved": SHA3}),
    said("exact commit", f"@familiar review `{SHA3.upper()}`.", {"approved": SHA3}),
    said(
        "a short id binds nothing",
        "@familiar review abcdef1",
        {"ignored_as": "commit_not_full", "lane": "control"},
    ),
    said(
        "words after review bind nothing",
        "@familiar review please",
        {"approved": None, "verb": "review"},
    ),
    said(
        "review of an issue",
        "@familiar review",
        {"ignored_as": "not_a_pull_request", "lane": "control"},
        fixture="issue_comment.created.issue",
    ),
    said(
        "deepen of an issue",
        "@familiar deepen",
        {"ignored_as": "not_a_pull_request"},
        fixture="issue_comment.created.issue",
    ),
    said(
        "closed issue",
        "@familiar fix",
        {"voided_by": ["closed:3:"]},
        fixture="issue_comment.created.issue",
    ),
    said("closing spares what was asked of a pull request", "@familiar fix", {"voided_by": []}),
    *[
        said(
            "answered at once",
            f"@familiar {verb}",
            {"verb": verb, "lane": "control", "needs": needs, "key": "control:555:9002"},
        )
        for verb, needs in (
            ("status", "ANSWER"),
            ("help", "ANSWER"),
            ("cancel", "WRITE"),
            ("resume", "WRITE"),
            ("remember tabs", "DECISION"),
            ("memory", "DECISION"),
        )
        if " " not in verb
    ],
    said(
        "memory is a decision",
        "@familiar remember tabs",
        {"verb": "remember", "lane": "control", "needs": "DECISION", "args": "tabs"},
    ),
    said(
        "memory is a decision",
        "@familiar approve m-1 m-2",
        {"verb": "approve", "needs": "DECISION", "args": "m-1 m-2"},
    ),
    said(
        "a later release",
        "@familiar garden",
        {"ignored_as": "verb_not_available:garden", "lane": "control"},
    ),
    said(
        "a slip is asked about",
        "@familiar reveiw",
        {"verb": "reveiw", "lane": "control", "needs": "ANSWER", "answers": False},
    ),
    said(
        "other words go to who waits for them",
        "@familiar blue please",
        {"verb": "blue", "lane": "control", "answers": True},
    ),
    said("courtesy", "@familiar thanks", {"ignored": "no_command", "answers": True}),
    said("named familiar", "@nova-familiar fix", {"familiar": "nova"}),
    said("handle without case", "@CODY-Familiar FIX", {"verb": "fix", "familiar": "cody"}),
    said("bot suffix", "@cody-familiar[bot] fix", {"verb": "fix"}),
    said("alias", "@familiar fix", {"familiar": "nova"}, config={"review": {"familiar": "nova"}}),
    said("other alias", "@helper fix", {"verb": "fix"}, config={"commands": {"alias": "helper"}}),
    said("other alias", "@familiar fix", "not_addressed", config={"commands": {"alias": "helper"}}),
    said("slash", "/coven fix", {"verb": "fix", "familiar": "cody"}),
    said(
        "slash means the reviewer",
        "/coven fix",
        {"familiar": "nova"},
        config={"review": {"familiar": "nova"}},
    ),
    said(
        "a familiar out of scope is nobody",
        "@nova-familiar fix",
        "not_addressed",
        config={"installations": [{"id": 42, "familiars": ["cody"]}]},
    ),
    said(
        "list item",
        "Please:\n\n- @familiar fix the tests\n- something else",
        {"verb": "fix", "args": "the tests"},
    ),
    said("quotation", "> @familiar fix", {"ignored": "no_command", "answers": False}),
    said("lazy quotation", "> hello\n@familiar fix", "no_command"),
    said("emphasis", "**hello\n@familiar fix it**", "no_command"),
    said("code on two lines", "`\n@familiar fix\n`", "no_command"),
    said("line ends", "hello\r@familiar fix", {"verb": "fix"}),
    said("no familiar at all", "@familiar fix", "no_familiar", config={"familiars": []}),
    said("quoted list", "> - @familiar fix", "no_command"),
    said("fence", "```\n@familiar fix\n```", "no_command"),
    said("inline code", "`@familiar fix`", "not_addressed"),
    said("inline code", "a `b\n@familiar fix\n` c", "no_command"),
    said("indented code", "    @familiar fix", "no_command"),
    said("hidden text", "<!-- @familiar fix -->", "no_command"),
    said("hidden text", "hello <!--\n@familiar fix\n-->", "no_command"),
    said("link text", "[x\n@familiar fix it](https://x.example)", "no_command"),
    said("heading", "# @familiar fix", "no_command"),
    said("e-mail", "me@familiar fix", "not_addressed"),
    said("another handle", "@familiar-2 fix", "not_addressed"),
    said("team", "@familiar/team fix", "not_addressed"),
    said("domain", "@familiar.example fix", "not_addressed"),
    said("look-alike", "@fam\u0131liar fix", "not_addressed"),
    said("another script's letter", "@familiar\u00e9 fix", "not_addressed"),
    said("escape", "\\@familiar fix", "no_command"),
    said("mid-sentence", "please @familiar fix", "no_command"),
    said("talk is no slip", "Look:\n@familiar reveiw", "no_command"),
    said("comma and colon", "@familiar, fix: it", {"verb": "fix", "args": "it"}),
    said("full stop", "@familiar review.", {"verb": "review"}),
    said("line ends", "hello\r\n\r\n@familiar fix\r\n", {"verb": "fix"}),
    said("blanks", "@familiar\u00a0fix\tit", {"args": "it"}),
    said("the verb on the next line", "@familiar\nfix", {"verb": "fix"}),
    said("a glued word is no verb", "@familiar fix\u200bx", "no_command"),
    said(
        "in order, once each",
        "@familiar review\n@familiar fix a\n@FAMILIAR review",
        [{"verb": "review"}, {"verb": "fix", "args": "a"}],
    ),
    said(
        "at most three sessions",
        "\n".join(f"@{who}" for who in FOUR),
        [{"verb": "review"}, {"verb": "fix"}, {"verb": "deepen"}],
    ),
    said("one answer", "@familiar status\n@familiar help", [{"verb": "status"}]),
    said("stopping is never dropped", "@familiar status\n@familiar cancel", [{"verb": "cancel"}]),
    said("closed thread", "@familiar fix", "closed", changes={"issue.state": "closed"}),
    said(
        "closed thread answers",
        "@familiar status",
        {"verb": "status"},
        changes={"issue.state": "closed"},
    ),
    said("lane off", "@familiar fix", "lane_off:commands", config=lane("commands")),
    said(
        "through our App",
        "@familiar fix",
        "own_comment",
        changes={"comment.performed_via_github_app": {"id": 4242}},
    ),
    said(
        "through another App",
        "@familiar fix",
        {"verb": "fix"},
        changes={"comment.performed_via_github_app": {"id": 1}},
    ),
    said(
        "our own bot",
        "@familiar fix",
        "own_comment",
        changes={"sender": OURS | {"login": "x[bot]"}},
        bot_id=9001,
    ),
    said("other bots", "@familiar fix", "sender_is_bot", changes={"sender": BOT}),
    said(
        "other bots", "@familiar fix", "sender_is_bot", changes={"sender": BOT | {"type": "User"}}
    ),
    said(
        "listed bots",
        "@familiar fix",
        {"verb": "fix", "actor": 77},
        changes={"sender": BOT},
        config={"commands": {"bots": [77]}},
    ),
    said("nobody", "@familiar fix", "no_sender", changes={"sender": None}),
    said(
        "deleted author of the thread",
        "@familiar fix",
        {"author": None},
        changes={"issue.user": None},
    ),
    said(
        "the title is never read",
        "hello",
        {"ignored": "not_addressed", "answers": True},
        changes={"issue.title": "@familiar fix", "issue.body": "@familiar fix"},
    ),
    said(
        "no text",
        "",
        {"ignored": "not_addressed", "answers": False},
        changes={"comment.body": None},
    ),
    said(
        "plain words may answer",
        "use the second one",
        {"ignored": "not_addressed", "answers": True},
    ),
    said("archived", "@familiar fix", "repository_archived", changes={"repository.archived": True}),
    Case(
        "deleted comment",
        COMMENT,
        {"ignored": "comment_deleted:issue_comment:9002", "effects": ["cancel COMMENTS #7 9002"]},
        {"action": "deleted"},
    ),
    Case(
        "review text",
        "pull_request_review.submitted",
        {"verb": "fix", "needs": "WRITE", "is_pull": True},
        {"review.body": "@familiar fix"},
    ),
    Case(
        "review without text",
        "pull_request_review.submitted",
        {"ignored": "not_addressed", "answers": False},
        {"review.body": None},
    ),
    Case(
        "inline comment",
        "pull_request_review_comment.created",
        {"verb": "fix"},
        {"comment.body": "@familiar fix"},
    ),
    Case(
        "inline comment is deleted",
        "pull_request_review_comment.created",
        {"effects": ["cancel COMMENTS #7 9004"]},
        {"action": "deleted", "comment.id": 9004},
    ),
]

EDITS = [
    edited(
        "command edited in",
        "looks good",
        "@familiar fix",
        {"verb": "fix", "edited": True, "at": "2026-01-01T11:05:00+00:00"},
    ),
    edited("command changed", "@familiar reveiw", "@familiar review", {"verb": "review"}),
    edited(
        "command unchanged",
        "Hello!\n\n@familiar review",
        "Hello.\n\n@familiar review",
        "command_unchanged",
    ),
    edited("text unchanged", None, "@familiar review", "command_unchanged"),
    edited(
        "edited by somebody else", "x", "@familiar fix", "not_the_author", **{"comment.user": LISA}
    ),
    edited(
        "an edit answers nothing",
        "x",
        "the second one",
        {"ignored": "not_addressed", "answers": False},
    ),
    Case(
        "review edited",
        "pull_request_review.submitted",
        {"verb": "fix", "edited": True},
        {"action": "edited", "changes": {"body": {"from": ""}}, "review.body": "@familiar fix"},
    ),
    Case(
        "inline comment edited",
        "pull_request_review_comment.created",
        {"verb": "fix", "edited": True},
        {"action": "edited", "changes": {"body": {"from": ""}}, "comment.body": "@familiar fix"},
    ),
]

CLICKS = [
    Case(
        "re-run", "check_run.rerequested", {"click": "rerun", "head": SHA1, "task": "0" * 32 + ":1"}
    ),
    Case(
        "re-run of all",
        "check_suite.rerequested",
        {"click": "rerun", "head": SHA1, "task": None, "branch": "rounding"},
    ),
    *[
        Case(
            "button",
            "check_run.rerequested",
            {"click": wanted},
            {"action": "requested_action", "requested_action": {"identifier": name}},
        )
        for name, wanted in (("fix", "fix"), ("deepen", "deepen"))
    ],
    Case(
        "unknown button",
        "check_run.rerequested",
        "unknown_action",
        {"action": "requested_action", "requested_action": {"identifier": "rm -rf"}},
    ),
    Case(
        "button without a name",
        "check_run.rerequested",
        {"rejected": "missing_field:requested_action.identifier"},
        {"action": "requested_action"},
    ),
    Case(
        "another App's check",
        "check_run.rerequested",
        "not_our_check",
        {"check_run.app": {"id": 1}},
    ),
    Case(
        "another App's suite",
        "check_suite.rerequested",
        "not_our_check",
        {"check_suite.app": {"id": 1}},
    ),
    Case("no task named", "check_run.rerequested", "unknown_check", {"check_run.external_id": ""}),
    Case(
        "a name that is too long",
        "check_run.rerequested",
        "unknown_check",
        {"check_run.external_id": "x" * 101},
    ),
    Case("bots click nothing", "check_run.rerequested", "sender_is_bot", {"sender": BOT}),
    Case("lane off", "check_run.rerequested", "lane_off:commands", config=lane("commands")),
    Case(
        "checks that are only told",
        "check_run.rerequested",
        "action_not_handled",
        {"action": "completed"},
    ),
]

PLACES = [
    Case(
        "push to the default branch",
        "push",
        {"ignored": "default_branch", "effects": []},
        {"ref": "refs/heads/main"},
    ),
    Case("push to another branch", "push", {"ignored": "other_branch", "effects": []}),
    Case(
        "branch deleted",
        "push",
        {"ignored": "branch_deleted", "effects": ["branch rounding"]},
        {"deleted": True},
    ),
    Case(
        "a tag is no branch",
        "push",
        {"ignored": "not_a_branch", "effects": []},
        {"deleted": True, "ref": "refs/tags/rounding"},
    ),
    Case(
        "a push in a read-only repository",
        "push",
        {"effects": ["branch rounding"]},
        {"deleted": True, "repository.archived": True},
    ),
    Case(
        "thread resolved",
        "pull_request_review_thread.resolved",
        {"ignored": "thread_resolved", "effects": ["cancel COMMENTS #7 9003"]},
    ),
    Case("ping", "ping", "ping"),
    Case("ping without anything", "ping", "ping", {"hook": ABSENT, "hook_id": ABSENT}),
    Case("unknown event", "ping", "event_not_handled", event="deployment_review"),
    Case("unknown action", PULL, "action_not_handled", {"action": "typed"}),
    Case("no action", PULL, "action_not_handled", {"action": None}),
    Case("no installation", PULL, "no_installation", {"installation": None}),
    Case("no repository", PULL, "no_repository", {"repository": None}),
    Case(
        "a field of a wrong type",
        PULL,
        {"rejected": "bad_field:pull_request.number"},
        {"pull_request.number": "7"},
    ),
    Case(
        "no pull request",
        PULL,
        {"rejected": "missing_field:pull_request"},
        {"pull_request": ABSENT},
    ),
    Case("no label", "issues.labeled", {"rejected": "missing_field:label"}, {"label": None}),
    Case(
        "a name that is none",
        PULL,
        {"rejected": "bad_field:repository.full_name"},
        {"repository.full_name": "../x"},
    ),
    Case(
        "a branch that is none",
        PULL,
        {"rejected": "bad_field:pull_request.head.ref"},
        {"pull_request.head.ref": "x" * 300},
    ),
]

TENANTS = [
    Case(
        "installed",
        "installation.created",
        {
            "learned": "installation_created",
            "fact": "InstallationSeen",
            "created": True,
            "effects": [],
        },
    ),
    Case(
        "permissions accepted",
        "installation.new_permissions_accepted",
        {
            "learned": "permissions_accepted",
            "fact": "InstallationSeen",
            "created": False,
            "installation": 42,
            "selection": "all",
            "account": {"id": 1001, "login": "acme-inc", "kind": "Organization"},
            "at": "2019-05-15T15:19:51+00:00",
            "effects": ["back GitHubForbidden"],
        },
    ),
    Case(
        "an account without a login",
        "installation.new_permissions_accepted",
        {"account": {"id": 1001, "login": None, "kind": None}},
        {"installation.account": {"id": 1001, "slug": "acme"}},
    ),
    Case(
        "no account",
        "installation.new_permissions_accepted",
        {"account": None, "installation": 42},
        {"installation.account": None},
    ),
    Case(
        "uninstalled",
        "installation.deleted",
        {
            "learned": "installation_deleted",
            "fact": "InstallationRemoved",
            "effects": ["gone for good"],
        },
    ),
    Case(
        "suspended",
        "installation.unsuspend",
        {
            "learned": "installation_suspended",
            "suspended": True,
            "at": "2026-01-02T00:00:00+00:00",
            "effects": ["gone for now"],
        },
        {"action": "suspend", "installation.suspended_at": "2026-01-02T00:00:00Z"},
    ),
    Case(
        "taken up again",
        "installation.unsuspend",
        {
            "learned": "installation_unsuspended",
            "suspended": False,
            "effects": ["back InstallationGone"],
        },
    ),
    Case(
        "an installation without an id",
        "installation.deleted",
        "no_installation",
        {"installation.id": 0},
    ),
    Case(
        "repositories added",
        "installation_repositories.added",
        {"learned": "repositories_added", "fact": "RepositoriesSelected", "effects": []},
    ),
    Case(
        "repositories removed",
        "installation_repositories.removed",
        {"learned": "repositories_removed", "effects": ["repos 555"]},
    ),
    Case(
        "account renamed",
        "installation_target.renamed",
        {
            "learned": "account_renamed",
            "fact": "AccountRenamed",
            "former_login": "acme-inc",
            "account": {"id": 1001, "login": "acme-group", "kind": "Organization"},
        },
    ),
    Case(
        "account renamed",
        "organization.renamed",
        {"learned": "account_renamed", "former_login": "acme"},
    ),
    Case(
        "an account that nobody can name",
        "installation_target.renamed",
        {"rejected": "bad_field:account.id"},
        {"account": None},
    ),
    *[
        Case(
            "repository changed",
            "repository.edited",
            {
                "learned": f"repository_{change}",
                "fact": "RepositoryChanged",
                "change": change,
                "effects": [],
            },
            {"action": change},
        )
        for change in ("created", "edited", "renamed", "privatized", "publicized", "unarchived")
    ],
    Case(
        "repository renamed",
        "repository.edited",
        {"former_name": "bills"},
        {"action": "renamed", "changes": {"repository": {"name": {"from": "bills"}}}},
    ),
    Case(
        "repository archived",
        "repository.edited",
        {"change": "archived", "effects": ["repos 555"]},
        {"action": "archived"},
    ),
    Case(
        "repository transferred",
        "repository.transferred",
        {
            "change": "transferred",
            "former_owner": {"id": 2002, "login": "lisa", "kind": "User"},
            "effects": ["repos 555"],
        },
    ),
    Case(
        "repository deleted",
        "repository.edited",
        {"learned": "repository_deleted", "fact": "RepositoryDeleted", "effects": ["repos 555"]},
        {"action": "deleted"},
    ),
    Case(
        "a repository without an id",
        "repository.edited",
        {"rejected": "bad_field:repository.id"},
        {"repository.id": 0},
    ),
    Case(
        "tenancy needs no familiar",
        "repository.edited",
        {"learned": "repository_edited"},
        config={"familiars": []},
    ),
    *[
        Case("rights may have changed", fixture, "rights_may_have_changed")
        for fixture in ("member.added", "membership.removed", "team.added_to_repository")
    ],
    *[
        Case("rights may have changed", fixture, "rights_may_have_changed", {"action": action})
        for fixture, actions in (
            ("member.added", ("edited", "removed")),
            ("membership.removed", ("added",)),
            (
                "team.added_to_repository",
                ("created", "deleted", "edited", "removed_from_repository"),
            ),
            ("organization.renamed", ("deleted", "member_removed")),
        )
        for action in actions
    ],
    Case(
        "rights may have changed",
        "organization.renamed",
        "rights_may_have_changed",
        {"action": "member_added"},
    ),
    Case("authorization revoked", "github_app_authorization.revoked", "authorization_revoked"),
    Case(
        "purchase",
        "marketplace_purchase.purchased",
        {
            "learned": "plan_purchased",
            "fact": "PlanChanged",
            "installation": None,
            "action": "purchased",
            "previous": None,
        },
    ),
    Case(
        "plan changed",
        "marketplace_purchase.changed",
        {"action": "changed", "at": "2017-10-25T00:00:00+00:00"},
    ),
    *[
        Case(
            "plan changed",
            "marketplace_purchase.changed",
            {"learned": f"plan_{action}"},
            {"action": action},
        )
        for action in ("cancelled", "pending_change", "pending_change_cancelled")
    ],
    Case(
        "a purchase of nobody",
        "marketplace_purchase.purchased",
        {"rejected": "bad_field:marketplace_purchase.account.id"},
        {"marketplace_purchase.account": None},
    ),
]

CASES = [*PULLS, *LABELS, *ISSUES, *COMMANDS, *EDITS, *CLICKS, *PLACES, *TENANTS]
