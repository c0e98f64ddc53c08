"""What the memory book holds, and what may be done with it. Pure.

An entry is one text at one place. Its text never changes: another text at the same place is
another entry with the next version, so an id stands for exactly what was shown under it. Source:
memory contract, "Addressability" and "Adapter enforcement points".
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from coven.memory.keys import MemoryKey, Owner
from coven.values import InstallationId, RepoId, RepoName, TaskId, TrustScope
from coven.visible import with_visible

SUMMARY_CHARS = 2_000
"""Longest text of an entry. What is longer is a document, not something to remember."""

REDACTED = "[redacted]"
"""Stands in for a text that was taken out on demand."""

# Crockford's alphabet without vowels of doubt: no I, L, O, U.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID = re.compile(rf"M-[{_ALPHABET}]{{8}}\Z")
_SLIPS = str.maketrans("ILO", "110")

_OPERATOR = "operator:"

Scope = Literal["repo", "tenant_shared"]


class EntryState(StrEnum):
    """Life of an entry. Only approved ones are handed to runs."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    REVOKED = "revoked"
    EXPIRED = "expired"
    """Too old, or replaced by another text at the same place (see ``replaced_by``)."""


class Source(StrEnum):
    """How a text came into the book."""

    RUN = "run"
    COMMAND = "command"
    API = "api"


class Act(StrEnum):
    """What a line of the book's log says."""

    PROPOSED = "proposed"
    REMEMBERED = "remembered"
    APPROVED = "approved"
    REJECTED = "rejected"
    REVOKED = "revoked"
    LIFTED = "lifted"
    EXPIRED = "expired"
    REPLACED = "replaced"
    REDACTED = "redacted"
    SHARED = "shared"


class Refusal(StrEnum):
    """Why the book was not changed."""

    UNKNOWN = "unknown"
    """No such entry, or not of this installation or repository."""
    NOT_PENDING = "not_pending"
    NOT_APPROVED = "not_approved"
    """Only what is in use can be shared."""
    NOT_SHARED = "not_shared"
    TEXT_CHANGED = "text_changed"
    """The text that was shown is not the one that stands at this place now."""
    OWN_CHANGE = "own_change"
    """Four eyes: the author of a change can't approve what it taught."""
    REVOKED_KEY = "revoked_key"
    """The place is revoked; only lifting that opens it again."""
    EXPIRED = "expired"
    AMBIGUOUS = "ambiguous"
    """Several entries are meant; name one by its id."""
    BAD_KEY = "bad_key"
    OTHER_OWNER = "other_owner"
    """The key names another repository or installation."""
    UNTRUSTED = "untrusted"
    """Text of outsiders never enters the book."""
    TOO_LONG = "too_long"
    EMPTY = "empty"
    TOO_MANY = "too_many"
    """One run proposes more than anybody reads."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts. ``id`` is GitHub's; None for the operator of this server, and for a token."""

    id: int | None
    login: str

    @classmethod
    def operator(cls, os_user: str) -> Person:
        """Whoever runs our commands on the server."""
        return cls(None, f"{_OPERATOR}{os_user}")

    @property
    def is_operator(self) -> bool:
        """Whether it is whoever runs our commands on the server, and no account of GitHub."""
        return self.id is None and self.login.startswith(_OPERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """A text that wants to be remembered, and where it comes from."""

    repo_id: RepoId | None
    """None for what all repositories of the installation share."""
    repo: RepoName | None
    """The repository's name of today; None exactly when ``repo_id`` is."""
    key: MemoryKey
    summary: str
    source: Source
    trust: TrustScope
    """The lower of actor and author."""
    task_id: TaskId | None = None
    head_sha: str | None = None
    thread: int | None = None
    familiar_id: str | None = None
    actor_id: int | None = None
    actor_login: str | None = None
    author_id: int | None = None
    author_login: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One text at one place of the book."""

    seq: int
    id: str
    installation_id: InstallationId
    repo_id: RepoId | None
    repo: RepoName | None
    """The repository's name as last seen: a label. ``repo_id`` is who it is."""
    place: str
    """Namespace and key below the owner; survives a rename."""
    summary: str
    text_hash: str
    state: EntryState
    version: int
    """Counts the texts at this place, from 1."""
    source: Source
    trust: TrustScope
    task_id: TaskId | None
    head_sha: str | None
    thread: int | None
    familiar_id: str | None
    actor_id: int | None
    actor_login: str | None
    author_id: int | None
    author_login: str | None
    decided_by_id: int | None
    decided_by_login: str | None
    decided_at: datetime | None
    replaced_by: str | None
    redacted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    supplied: int
    """To how many runs it was handed."""
    cited: int
    """How many runs reported that they used it."""
    last_cited_at: datetime | None

    @property
    def owner(self) -> Owner:
        """Whose memory it is, under the name of today."""
        if self.repo is not None:
            return Owner(repo=self.repo)
        return Owner(installation_id=self.installation_id)

    @property
    def key(self) -> str:
        """The full key, under the name of today."""
        return f"{self.owner}/{self.place}"

    @property
    def scope(self) -> Scope:
        """The contract's namespace."""
        return "tenant_shared" if self.repo_id is None else "repo"

    def usable(self, now: datetime) -> bool:
        """Whether runs may be given it."""
        return self.state is EntryState.APPROVED and not expired(self.expires_at, now)


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a wish. ``refused`` is None when the book says what was wished.

    A refusal comes with the entry it is about, when there is one and it may be shown.
    """

    entry: Entry | None
    refused: Refusal | None = None
    fresh: bool = True
    """False when it was so already and nothing was changed."""

    @property
    def done(self) -> bool:
        """Whether the book says what was wished."""
        return self.refused is None


@dataclass(frozen=True, slots=True)
class Revoked:
    """What was revoked: a place and everything below it."""

    target: str | None
    """The prefix under the name of today."""
    entries: tuple[str, ...] = ()
    """Ids that were taken out of use by this."""
    refused: Refusal | None = None
    fresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """A place that is closed until somebody lifts it."""

    seq: int
    repo_id: RepoId | None
    repo: RepoName | None
    below: str
    """Empty for everything of the owner."""
    target: str
    by_id: int | None
    by_login: str
    at: datetime
    lifted_by_id: int | None
    lifted_by_login: str | None
    lifted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A line of the append-only log."""

    seq: int
    act: Act
    entry_id: str | None
    target: str
    text_hash: str | None
    by_id: int | None
    by_login: str | None
    task_id: TaskId | None
    detail: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What one run had to do with memory: one line per entry and operation."""

    seq: int
    task_id: TaskId
    op: Literal["supplied", "read", "proposed", "rejected"]
    entry_id: str | None
    """None when the book knows no such entry."""
    target: str | None
    scope: str
    outcome: str
    """``accepted``, ``unknown`` (nothing is there to read), ``not_kept`` (a proposal of a session
    that came to no result), or ``rejected:<reason>``."""
    at: datetime


def new_id() -> str:
    """A fresh id. Forty random bits: not guessable within a tenant, short enough to type."""
    return "M-" + "".join(secrets.choice(_ALPHABET) for _ in range(8))


def parse_id(text: str) -> str | None:
    """The id in its one spelling: any case, and the letters that look like digits; else None."""
    shown = text.strip().upper()
    if not shown.startswith("M-"):
        return None
    found = "M-" + shown[2:].translate(_SLIPS)
    return found if _ID.match(found) else None


def text_hash(place: str, scope: str, summary: str) -> str:
    """What an approval is bound to: place below the owner, scope and exact text.

    Without the owner's name, so that a rename between showing and answering changes nothing.
    """
    raw = json.dumps([place, scope, summary], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(raw.encode()).hexdigest()


def place_of(key: MemoryKey) -> str:
    """The part of a key below its owner."""
    return "/".join((key.namespace, *key.path))


def shown(summary: str) -> str:
    """The text with everything that hides made visible, as ``\\u{200b}``."""
    return with_visible(summary)[0]


def expired(expires_at: datetime | None, now: datetime) -> bool:
    """Whether the time is over; None never ends."""
    return expires_at is not None and expires_at <= now


def may_decide(entry: Entry, by: Person, *, approve: bool, four_eyes: bool) -> bool:
    """Four eyes: whoever wrote the change can't approve what it taught. Refusing is free.

    An author that is not known may be anybody, and so may the holder of a token. Scheduled work
    has no author.
    """
    if not approve or not four_eyes or by.is_operator or entry.trust is TrustScope.SCHEDULED:
        return True
    return by.id is not None and entry.author_id is not None and by.id != entry.author_id


def derived_key(owner: Owner, summary: str) -> MemoryKey:
    """A place for a text that came without one: ``notes/<first words>-<check>``."""
    words = re.findall(r"[a-z0-9]+", summary.lower())
    slug = "-".join(words)[:40].strip("-") or "note"
    check = hashlib.sha256(" ".join(summary.split()).encode("utf-8", "replace")).hexdigest()[:6]
    return MemoryKey(owner, "notes", (f"{slug}-{check}",))
