"""Entries for the memory book, with defaults for all that a test does not care about."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from coven.memory.book import (
    Decided,
    Entry,
    EntryState,
    NewEntry,
    Person,
    Revoked,
    Source,
    new_id,
    text_hash,
)
from coven.memory.keys import MemoryKey
from coven.store import book
from coven.store.engine import Store
from coven.values import InstallationId, RepoId, RepoName, TaskId, TrustScope
from tests.ledger import NOW, REPO_ID, TENANT

REPO = RepoName("octo", "demo")
ANN = Person(11, "ann")
BEN = Person(12, "ben")
RUN = TaskId("a" * 32)
KEEP = timedelta(days=10)


def entry(**changes: Any) -> Entry:
    """An approved entry of ``acme/billing`` (555) in installation 42, as if read from the book."""
    values: dict[str, Any] = {
        "seq": 1,
        "id": new_id(),
        "installation_id": InstallationId(42),
        "repo_id": RepoId(555),
        "repo": RepoName("acme", "billing"),
        "place": "conventions/x",
        "summary": "Round half up.",
        "state": EntryState.APPROVED,
        "version": 1,
        "source": Source.RUN,
        "trust": TrustScope.MAINTAINER,
        "decided_by_id": 11,
        "decided_by_login": "ann",
        "decided_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        "supplied": 0,
        "cited": 0,
    }
    values = dict.fromkeys(Entry.__dataclass_fields__) | values | changes
    scope = "repo" if values["repo_id"] else "tenant_shared"
    values["text_hash"] = text_hash(values["place"], scope, values["summary"])
    return Entry(**values)


def new_entry(place: str = "conv/x", summary: str = "Round half up.", **changes: Any) -> NewEntry:
    """What a run of Ann's, on Ben's change, teaches about the repository."""
    repo = changes.get("repo", REPO)
    owner = f"repo/{repo}" if repo else f"tenant/{TENANT}"
    values: dict[str, Any] = {
        "repo_id": REPO_ID,
        "repo": repo,
        "key": MemoryKey.parse(f"{owner}/{place}"),
        "summary": summary,
        "source": Source.RUN,
        "trust": TrustScope.MAINTAINER,
        "task_id": RUN,
        "head_sha": "b" * 40,
        "thread": 3,
        "familiar_id": "cody",
        "actor_id": 11,
        "actor_login": "ann",
        "author_id": 12,
        "author_login": "ben",
    }
    return NewEntry(**(values | changes))


def shared(place: str = "conv/x", summary: str = "Be brief.", **changes: Any) -> NewEntry:
    """The same for all repositories of the installation."""
    return new_entry(place, summary, repo_id=None, repo=None, **changes)


def propose(store: Store, *args: Any, approved: bool = False, **changes: Any) -> Decided:
    """Propose in a transaction of its own."""
    tenant, keep = changes.pop("tenant", TENANT), changes.pop("keep", KEEP)
    now = changes.pop("now", NOW)
    with store.write() as tx:
        return book.propose(
            tenant, tx, new_entry(*args, **changes), now, keep=keep, approved=approved
        )


def pending(store: Store, *args: Any, **changes: Any) -> Entry:
    """An entry that waits."""
    done = propose(store, *args, **changes)
    assert done.entry is not None
    assert done.fresh
    return done.entry


def decide(store: Store, entry: Entry, approve: bool = True, **changes: Any) -> Decided:
    """Answer to the text of ``entry``."""
    tenant, by = changes.pop("tenant", TENANT), changes.pop("by", ANN)
    digest, now = changes.pop("shown", entry.text_hash), changes.pop("now", NOW)
    keep = changes.pop("keep", KEEP)
    with store.write() as tx:
        return book.decide(tenant, tx, entry.id, approve, by, digest, now, keep=keep, **changes)


def approved(store: Store, *args: Any, **changes: Any) -> Entry:
    """An entry in use."""
    done = decide(store, pending(store, *args, **changes))
    assert done.entry is not None
    assert done.refused is None
    return done.entry


def remember(store: Store, *args: Any, **changes: Any) -> Decided:
    """A maintainer's own text."""
    tenant = changes.pop("tenant", TENANT)
    with store.write() as tx:
        return book.remember(
            tenant, tx, new_entry(*args, **(changes | {"source": Source.COMMAND})), ANN, NOW
        )


def revoke(store: Store, target: str, **changes: Any) -> Revoked:
    """Close a place."""
    tenant = changes.pop("tenant", TENANT)
    with store.write() as tx:
        return book.revoke(tenant, tx, target, ANN, NOW, **changes)


def lift(store: Store, target: str, **changes: Any) -> Revoked:
    """Open it again."""
    tenant = changes.pop("tenant", TENANT)
    with store.write() as tx:
        return book.lift(tenant, tx, target, ANN, NOW, **changes)


def again(store: Store, entry: Entry) -> Entry:
    """An entry as it stands now."""
    with store.read() as tx:
        found = book.entry(TENANT, tx, entry.id)
    assert found is not None
    return found


def denied(store: Store, repo_id: RepoId = REPO_ID, repo: RepoName = REPO) -> tuple[str, ...]:
    """What a run there must not touch."""
    with store.read() as tx:
        return book.denied(TENANT, tx, repo_id, repo)
