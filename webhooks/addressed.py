"""Routing of what people write: comments, review comments and reviews that address a familiar."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from coven import semantic_keys
from coven.settings.models import Familiar
from coven.values import Lane, Sha
from coven.verbs import MEMORY_VERBS, Argument, Surface, Trust
from webhooks.commands import SLASH, Command, Grammar, Reading
from webhooks.intents import (
    ARGS_CHARS,
    BODY_CHARS,
    HUNK_CHARS,
    PATH_CHARS,
    Answer,
    Cancel,
    Ignored,
    Intent,
    Needs,
    Of,
    Routed,
    Scene,
    intent_of,
    mark_prefix,
    needed,
    person,
    texts,
)
from webhooks.payloads import Issue, PullRequest, User, clean
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
    author: User | None
    extra: dict[str, Any]

    @property
    def is_pull(self) -> bool:
        """Whether the thread is a pull request."""
        return isinstance(self.target, PullRequest) or self.target.pull_request is not None


def route_text(scene: Scene) -> Routed:
    """What a comment, a review or the text of an issue asks for.

    Only the text itself is read, never title or thread. An edit asks for something when its author
    made it and it changed the commands.
    """
    said = _said(scene)
    if scene.action == "deleted":
        place = scene.place
        gone = Cancel(
            place.installation_id,
            place.repo_id,
            said.target.number,
            "the comment was deleted",
            Of.COMMENTS,
            comments=frozenset({said.id}),
        )
        return Ignored(deleted_reason(said.kind, said.id), (gone,))
    if scene.sent_by_us():
        return Ignored("own_comment")
    unheard = scene.unheard()
    if unheard is not None:
        return unheard
    if not scene.scope.triggers.commands:
        return Ignored("lane_off:commands")
    edited = scene.action == "edited"
    if scene.actor != person(said.author) and (edited or said.kind == "issue"):
        # Somebody else's words are no command of the one who edits or moves them.
        return Ignored("not_the_author")
    handles = _handles(scene)
    names = [handle for handle in handles if handle != SLASH]
    grammar = Grammar(names, slash=SLASH in handles)
    reading = grammar.read(said.body)
    if not reading.commands:
        reason = "no_command" if reading.mentioned else "not_addressed"
        plain = edited or said.kind == "issue"
        return Ignored(reason, answer=None if plain else _answering(scene, said))
    if edited and not _changed(scene, grammar, reading):
        return Ignored("command_unchanged")
    return _choose([_intent(scene, said, handles[c.handle], c) for c in reading.commands])


def _handles(scene: Scene) -> dict[str, Familiar]:
    """Who is meant by which name; of two familiars with one handle, the first."""
    handles = {f.handle.lower(): f for f in reversed(scene.scope.familiars)}
    if scene.reviewer is not None:
        handles.setdefault(scene.settings.commands.alias.lower(), scene.reviewer)
        handles[SLASH] = scene.reviewer
    return handles


def _changed(scene: Scene, grammar: Grammar, reading: Reading) -> bool:
    changes = scene.payload.changes
    before = changes.body if changes else None
    return before is not None and grammar.read(before.from_).commands != reading.commands


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
        first = chosen.get(intent.semantic_key)
        if first is not None and intent.needs is Needs.DECISION:
            # A maintainer's decision is never the one that is dropped, nor half of two.
            both = first.needs is Needs.DECISION
            chosen[intent.semantic_key] = _and_then(first, intent) if both else intent
            continue
        if first is not None and intent.verb != "cancel":
            continue  # One answer per comment; a wish to stop is never the one that is dropped.
        if intent.lane is not Lane.CONTROL:
            sessions += 1
            if sessions > MAX_SESSIONS:
                continue
        chosen[intent.semantic_key] = intent
    if not chosen:
        return next(item for item in found if isinstance(item, Ignored))
    return tuple(chosen.values())


def _and_then(first: Intent, further: Intent) -> Intent:
    """One task for all decisions of a comment: ``verb_2``, ``args_2`` and so on."""
    number = 2 + sum(name.startswith("verb_") for name in first.payload)
    more = {f"verb_{number}": further.verb, f"args_{number}": further.payload.get("args", "")}
    return replace(first, payload=first.payload | more)


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
    edited = scene.action == "edited"
    if scene.event == "issues":
        issue = needed(payload.issue, "issue")
        at = issue.updated_at if edited else issue.created_at
        return Said(0, "issue", issue.body, at, issue, issue.user, {})
    if scene.event == "pull_request_review":
        review = needed(payload.review, "review")
        pull = needed(payload.pull_request, "pull_request")
        at = review.updated_at if edited else review.submitted_at
        return Said(review.id, "review", review.body, at, pull, review.user, {})
    comment = needed(payload.comment, "comment")
    at = comment.updated_at if edited else comment.created_at
    if scene.event == "issue_comment":
        issue = needed(payload.issue, "issue")
        return Said(comment.id, "issue_comment", comment.body, at, issue, comment.user, {})
    pull = needed(payload.pull_request, "pull_request")
    extra = texts(diff_hunk=(comment.diff_hunk, HUNK_CHARS), path=(comment.path, PATH_CHARS))
    line = comment.line if comment.line is not None else comment.original_line
    if line is not None and 0 < line < 2**31:
        extra["line"] = line
    return Said(comment.id, "review_comment", comment.body, at, pull, comment.user, extra)


def _intent(scene: Scene, said: Said, familiar: Familiar, command: Command) -> Intent | Ignored:
    verb = command.verb
    if said.kind == "issue" and not (verb and verb.session):
        return Ignored("no_work_in_issue_text")
    if verb is None:
        # A slip, or words for a task that waits for them.
        answer = None if command.meant or said.kind == "issue" else _answering(scene, said)
        return replace(_answer(scene, said, familiar, command), answer=answer)
    if not verb.available:
        return _answer(scene, said, familiar, command, f"verb_not_available:{verb.name}")
    if not verb.session:
        needs = Needs.WRITE if verb.trust is Trust.WRITE else Needs.ANSWER
        needs = Needs.DECISION if verb.name in MEMORY_VERBS else needs
        return _answer(scene, said, familiar, command, needs=needs)
    if verb.surface is Surface.PULL and not said.is_pull:
        reply = needs_pull_request(familiar.handle)
        return _answer(scene, said, familiar, command, "not_a_pull_request", reply)
    reviews = verb.argument is Argument.COMMIT
    approved, mistaken = approved_commit(command.args) if reviews else (None, False)
    if mistaken:
        reply = needs_full_commit(familiar.handle)
        return _answer(scene, said, familiar, command, "commit_not_full", reply)
    if said.target.state == "closed":
        return Ignored("closed")
    thread = said.target.number
    return intent_of(
        scene,
        familiar,
        said.target,
        lane=Lane.REVIEW if reviews else Lane.FIX,
        verb=verb.name,
        needs=Needs.WRITE,
        semantic_key=semantic_keys.asked_work(verb.name, scene.place.repo_id, thread, familiar.id),
        priority=5,
        **_spoken(scene, said, command),
        payload=_texts(said, command) | ({"approved_sha": approved} if approved else {}),
        voided_by=() if said.is_pull else (mark_prefix("closed", thread),),
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
        "comment_id": said.id or None,
        "comment_kind": said.kind if said.id else None,
        "source_at": said.at or said.target.updated_at,
        "edited": scene.action == "edited",
    }


def _texts(said: Said, command: Command) -> dict[str, Any]:
    return said.extra | texts(
        body=(said.target.body, BODY_CHARS),
        comment_body=(said.body, BODY_CHARS),
        args=(command.args, ARGS_CHARS),
    )
