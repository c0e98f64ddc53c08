"""What a surface should show: the ``desired`` column of the surface ledger, one model per kind.

Receiver and workers state these; the publisher alone turns them into API calls. Texts in here are
finished Markdown: neutralised, redacted and within GitHub's limits.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from coven.github_limits import (
    ACTION_DESCRIPTION,
    ACTION_IDENTIFIER,
    ACTION_LABEL,
    CHECK_SUMMARY,
    COMMENT,
)
from coven.markdown import cut_bytes
from coven.values import Conclusion

CommentState = Literal[
    "queued",
    "working",
    "done",
    "partial",
    "needs input",
    "failed",
    "declined",
    "superseded",
    "cancelled",
]


COMMENT_SPARE = 300
"""Bytes of a comment that are kept for its marker."""


class Content(BaseModel):
    """Base of all desired contents."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Annotation(Content):
    """One finding on a line of the reviewed commit (GitHub REST, "Checks")."""

    path: str
    start_line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    level: Literal["notice", "warning", "failure"]
    title: str
    message: str


class CheckAction(Content):
    """A button on a completed Check Run: at most three, with GitHub's length limits."""

    identifier: str = Field(max_length=ACTION_IDENTIFIER)
    label: str = Field(max_length=ACTION_LABEL)
    description: str = Field(max_length=ACTION_DESCRIPTION)


FIX_BUTTON = CheckAction(
    identifier="fix", label="Fix this", description="Mend these findings in a new commit"
)
"""On a completed review with findings; its identifier comes back as ``requested_action``."""
MEMORY_BUTTON = CheckAction(
    identifier="mem_approve",
    label="Remember this",
    description="Approve this run's one memory proposal",
)
"""On a completed Check Run whose work has exactly one pending proposal for memory."""
APPROVE_BUTTON = CheckAction(
    identifier="gov_approve", label="Approve", description="Let exactly this action happen, once"
)
DENY_BUTTON = CheckAction(
    identifier="gov_deny", label="Deny", description="End this work without the action"
)
"""Both, and no others, on a Check Run whose work waits for a decision about one action."""
DEEPEN_BUTTON = CheckAction(
    identifier="deepen", label="Go deeper", description="Review again, more thoroughly"
)
"""On every completed review."""


class Proposal(Content):
    """A proposal for memory that a button offers, bound to the text that stands beside it."""

    id: str
    text_hash: str


class CheckRunContent(Content):
    """Subject ``task:<id>:<round>``."""

    name: str
    head_sha: str
    external_id: str
    status: Literal["queued", "in_progress", "completed"]
    conclusion: Conclusion | None = None
    title: str
    summary: str
    text: str | None = None
    annotations: tuple[Annotation, ...] = ()
    first_marks: bool = False
    """No earlier content of this run had annotations, so at a first try there can't be any."""
    actions: tuple[CheckAction, ...] = ()
    details_url: str | None = None
    memory: str | None = None
    """Proposals and citations, below the summary; they change when somebody answers."""
    proposal: Proposal | None = None
    """What the memory button of this run is about."""
    escalation: str | None = None
    """What the buttons to approve and deny are about."""
    rules: str | None = None
    """What the record of the rules says about the work, below the summary."""

    @property
    def whole_summary(self) -> str:
        """What stands in GitHub's summary."""
        below = "\n\n".join(part for part in (self.rules, self.memory) if part)
        return with_memory(self.summary, below or None, CHECK_SUMMARY)


class StatusCommentContent(Content):
    """Subject ``thread:<n>:<familiar>``. The publisher puts the marker in front of ``body``."""

    thread: int
    familiar_id: str
    state: CommentState
    body: str
    refresh: int = 0
    """Raised when what the publisher adds below ``body`` (links, history) has changed."""
    memory: str | None = None
    """Proposals and citations, below ``body``; they change when somebody answers."""

    @property
    def whole_body(self) -> str:
        """What stands above the links that the publisher adds."""
        return with_memory(self.body, self.memory, COMMENT - COMMENT_SPARE)


class ReplyContent(Content):
    """Subject ``comment:<id>``: one answer to one comment, never over a result."""

    thread: int
    familiar_id: str
    comment_id: int
    comment_kind: Literal["issue_comment", "review_comment", "review"]
    body: str


class PullRequestContent(Content):
    """Subject ``branch:<name>``: a draft from a branch that was verified on the remote."""

    head: str
    head_sha: str
    base: str
    title: str
    body: str
    memory: str | None = None
    """Proposals and citations, below ``body``; they change when somebody answers."""
    draft: bool = True
    thread: int
    familiar_id: str

    @property
    def whole_body(self) -> str:
        """The text of the pull request, below the marker."""
        return with_memory(self.body, self.memory, COMMENT - COMMENT_SPARE)


class ReactionContent(Content):
    """Subject ``comment:<id>``: our one reaction to the comment that gave a command."""

    comment_id: int
    comment_kind: Literal["issue_comment", "review_comment"]
    content: Literal["eyes", "rocket", "confused"]
    """Heard, done, or not done (failed, declined, cancelled)."""


class ReviewComment(Content):
    """One finding on lines of the diff, new side."""

    path: str
    line: int = Field(ge=1)
    start_line: int | None = Field(default=None, ge=1)
    body: str
    spot: str
    """The same finding with its place in words, for the body when GitHub does not take the line."""


class ReviewContent(Content):
    """Subject ``sha:<sha>:<familiar>``: at most one pull request review per commit."""

    thread: int
    familiar_id: str
    sha: str
    event: Literal["COMMENT", "REQUEST_CHANGES"] = "COMMENT"
    body: str
    """Empty: there is nothing to say, only to withdraw."""
    comments: tuple[ReviewComment, ...] = ()
    withdraw: str | None = None
    """Dismiss our earlier requests for changes, with this message."""


def with_memory(text: str, memory: str | None, limit: int) -> str:
    """``text`` with what there is to say about memory below it, at most ``limit`` bytes."""
    if not memory:
        return text
    return f"{cut_bytes(text, limit - len(memory.encode()) - 2)}\n\n{memory}"


def check_run_subject(task_id: str, round_: int) -> str:
    """One Check Run per round: a completed one can't be opened again."""
    return f"task:{task_id}:{round_}"


def check_run_external_id(task_id: str, round_: int) -> str:
    """Comes back in ``check_run`` events, and finds our object after a lost answer."""
    return f"{task_id}:{round_}"


def status_comment_subject(thread: int, familiar_id: str) -> str:
    """One status comment per familiar and thread."""
    return f"thread:{thread}:{familiar_id}"


def reply_subject(comment_id: int) -> str:
    """One answer per comment, however often the command is delivered."""
    return f"comment:{comment_id}"


def pull_request_subject(branch: str) -> str:
    """One pull request per reserved branch."""
    return f"branch:{branch}"


def check_run_name(display_name: str, lane: str) -> str:
    """Constant per familiar and lane, so that branch protection can require it."""
    return f"{display_name} / {lane}"


def reaction_subject(comment_id: int) -> str:
    """One reaction of ours per comment, whatever came of it."""
    return f"comment:{comment_id}"


def review_subject(sha: str, familiar_id: str) -> str:
    """One review per commit and familiar, however often it is reviewed."""
    return f"sha:{sha}:{familiar_id}"
