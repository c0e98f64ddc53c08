"""Routing of what people write: comments, review comments and reviews that address a familiar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coven import semantic_keys
from coven.settings.models import Familiar
from coven.values import Lane, Sha
from coven.verbs import MEMORY_VERBS
from webhooks.commands import SLASH, Command, Grammar
from webhooks.payloads import Issue, PullRequest, clean
from webhooks.routing import (
    ARGS_CHARS,
    BODY_CHARS,
    HUNK_CHARS,
    PATH_CHARS,
    Answer,
    Cancel,
    Ignored,
    Intent,
    Needs,
    Routed,
    Scene,
    intent_of,
    needed,
    texts,
)
from webhooks.say import needs_full_commit, needs_pull_request

MAX_SESSIONS = 3
"""Sessions that one comment may start."""

_QUOTED = re.compile(r" {0,3}>")
_COMMENT = re.compile(r"<!--(?:(?!-->).)*(?:-->|\Z)", re.DOTALL)
_HEX = re.compile(r"[0-9a-f]{7,}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Said:
    """One text that a person wrote on a thread."""

    id: int
    kind: str
    body: str | None
    at: datetime | None
    target: PullRequest | Issue
    extra: dict[str, Any]

    @property
    def is_pull(self) -> bool:
        """Whether the thread is a pull request."""
        return isinstance(self.target, PullRequest) or self.target.pull_request is not None


def route_text(scene: Scene) -> Routed:
    """What a comment or review asks for. Only its own text is read, never title or thread."""
    said = _said(scene)
    if scene.action == "deleted":
        place = scene.place
        why = "the comment was deleted"
        gone = Cancel(
            place.installation_id, place.repo_id, said.target.number, why, comment_id=said.id
        )
        return Ignored(deleted_reason(said.kind, said.id), gone)
    if scene.sent_by_us():
        return Ignored("own_comment")
    if scene.payload.sender is None:
        return Ignored("no_sender")
    if scene.payload.sender.is_bot:
        return Ignored("sender_is_bot")
    if not scene.scope.triggers.commands:
        return Ignored("lane_off:commands")
    handles = {f.handle.lower(): f for f in reversed(scene.scope.familiars)}
    alias = scene.settings.commands.alias.lower()
    if scene.reviewer is not None:
        handles.setdefault(alias, scene.reviewer)
        handles[SLASH] = scene.reviewer
    names = [handle for handle in handles if handle != SLASH]
    reading = Grammar(names, slash=SLASH in handles).read(said.body)
    if not reading.commands:
        reason = "no_command" if reading.mentioned else "not_addressed"
        return Ignored(reason, answer=_answering(scene, said))
    return _choose([_intent(scene, said, handles[c.handle], c) for c in reading.commands])


def deleted_reason(kind: str, comment_id: int) -> str:
    """How the ledger remembers a deleted comment, should its ``created`` arrive late."""
    return f"comment_deleted:{kind}:{comment_id}"


def _choose(found: list[Intent | Ignored]) -> Routed:
    """In order, each piece of work once, and at most one answer on the thread."""
    chosen: dict[str, Intent] = {}
    sessions = 0
    for intent in found:
        if isinstance(intent, Ignored):
            continue
        if intent.semantic_key in chosen and intent.verb != "cancel":
            continue  # One answer per comment; a wish to stop is never the one that is dropped.
        if intent.lane is not Lane.CONTROL:
            sessions += 1
            if sessions > MAX_SESSIONS:
                continue
        chosen[intent.semantic_key] = intent
    if not chosen:
        return next(item for item in found if isinstance(item, Ignored))
    return tuple(chosen.values())


def _answering(scene: Scene, said: Said) -> Answer | None:
    text = clean(said.body or "", BODY_CHARS)
    if not has_own_words(text):
        return None
    return Answer(scene, said.target.number, text, said.id, said.kind, said.at)


def has_own_words(text: str) -> bool:
    """Whether a reply holds more than quoted lines and what GitHub does not show."""
    shown = _COMMENT.sub("", text)
    return any(line.strip() and not _QUOTED.match(line) for line in shown.split("\n"))


def _said(scene: Scene) -> Said:
    payload = scene.payload
    if scene.event == "pull_request_review":
        review = needed(payload.review, "review")
        pull = needed(payload.pull_request, "pull_request")
        return Said(review.id, "review", review.body, review.submitted_at, pull, {})
    comment = needed(payload.comment, "comment")
    if scene.event == "issue_comment":
        issue = needed(payload.issue, "issue")
        return Said(comment.id, "issue_comment", comment.body, comment.created_at, issue, {})
    pull = needed(payload.pull_request, "pull_request")
    extra = texts(diff_hunk=(comment.diff_hunk, HUNK_CHARS), path=(comment.path, PATH_CHARS))
    line = comment.line if comment.line is not None else comment.original_line
    if line is not None and 0 < line < 2**31:
        extra["line"] = line
    return Said(comment.id, "review_comment", comment.body, comment.created_at, pull, extra)


def _intent(scene: Scene, said: Said, familiar: Familiar, command: Command) -> Intent | Ignored:
    verb = command.verb
    if verb is None or verb.name in ("status", "help"):
        return _answer(scene, said, familiar, command)
    if not verb.available:
        return _answer(scene, said, familiar, command, f"verb_not_available:{verb.name}")
    if verb.name == "cancel":
        return _answer(scene, said, familiar, command, needs=Needs.WRITE)
    if verb.name in MEMORY_VERBS:
        return _answer(scene, said, familiar, command, needs=Needs.DECISION)
    reviews = verb.name in ("review", "deepen")
    if reviews and not said.is_pull:
        reply = needs_pull_request(familiar.handle)
        return _answer(scene, said, familiar, command, "not_a_pull_request", reply)
    approved, mistaken = approved_commit(command.args) if reviews else (None, False)
    if mistaken:
        reply = needs_full_commit(familiar.handle)
        return _answer(scene, said, familiar, command, "commit_not_full", reply)
    if said.target.state == "closed":
        return Ignored("closed")
    return intent_of(
        scene,
        familiar,
        said.target,
        lane=Lane.REVIEW if reviews else Lane.FIX,
        verb=verb.name,
        needs=Needs.WRITE,
        semantic_key=semantic_keys.asked_work(
            verb.name, scene.place.repo_id, said.target.number, familiar.id
        ),
        priority=5,
        **_spoken(scene, said, command),
        payload=_texts(said, command) | ({"approved_sha": approved} if approved else {}),
    )


def approved_commit(args: str) -> tuple[str | None, bool]:
    """The commit that ``review`` names, and whether one was meant but not fully written.

    A short id or a branch can come to mean something else; only a full id binds an approval.
    """
    first = (args.split(maxsplit=1) or [""])[0].strip("`.,;:")
    if not _HEX.fullmatch(first):
        return None, False
    try:
        return str(Sha(first.lower())), False
    except ValueError:
        return None, True


def _answer(
    scene: Scene,
    said: Said,
    familiar: Familiar,
    command: Command,
    ignored_as: str | None = None,
    reply: str | None = None,
    needs: Needs = Needs.ANSWER,
) -> Intent:
    extra = {"reply_body": reply} if reply else {}
    return intent_of(
        scene,
        familiar,
        said.target,
        lane=Lane.CONTROL,
        verb=command.word[:20],
        needs=needs,
        semantic_key=semantic_keys.control(scene.place.repo_id, said.id),
        priority=10,
        ignored_as=ignored_as,
        **_spoken(scene, said, command),
        payload=texts(args=(command.args, ARGS_CHARS)) | extra,
    )


def _spoken(scene: Scene, said: Said, command: Command) -> dict[str, Any]:
    return {
        "reason": f"command:{command.word[:20]}",
        "actor": scene.actor,
        "comment_id": said.id,
        "comment_kind": said.kind,
        "source_at": said.at or said.target.updated_at,
    }


def _texts(said: Said, command: Command) -> dict[str, Any]:
    return said.extra | texts(
        body=(said.target.body, BODY_CHARS),
        comment_body=(said.body, BODY_CHARS),
        args=(command.args, ARGS_CHARS),
    )
