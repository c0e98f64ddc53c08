"""The adversarial corpus of memory: how a case of each file is checked.

``tests/fixtures/memory`` holds the cases; each names the rule that it covers. A check raises when
the case does not come out as written. Imported anew for every mutation (:mod:`.runner`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from coven.contract.memory import MemoryUsed
from coven.memory.book import (
    Decided,
    Entry,
    EntryState,
    NewEntry,
    Person,
    Refusal,
    Revoked,
    Source,
    shown,
)
from coven.memory.denied import folded
from coven.memory.keys import KeyPrefix, MemoryKey
from coven.memory.pii import personal_data
from coven.memory.policy import Grant, MemoryFacts, grant_for
from coven.memory.supply import block, supply
from coven.memory.validation import judge_memory
from coven.redaction import Redactor
from coven.settings.models import Memory, Server, Settings
from coven.store import book, book_sweeps
from coven.store.engine import Tx
from coven.store.tables import tasks
from coven.values import InstallationId, RepoId, RepoName, TaskId, TrustScope
from tests.ledger import new_task
from tests.mutations.database import empty, store

FOLDER = Path(__file__).parents[1] / "fixtures" / "memory"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REDACTOR = Redactor(["plain-live-value-77"])
FACTS = MemoryFacts(
    installation_id=InstallationId(42),
    account_id=1001,
    account_login="acme",
    repo_id=RepoId(555),
    repo=RepoName("acme", "billing"),
    visibility="private",
    default_branch="main",
    base_ref="main",
    head_ref="fix/tax",
    same_repo=True,
    trust=TrustScope.MAINTAINER,
    content_trust=TrustScope.MAINTAINER,
)
Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    """The cases of a file."""
    found: list[Case] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def check_key(case: Case) -> None:
    """A text is a key in its one spelling, or none."""
    try:
        spelled = str(MemoryKey.parse(case["text"]))
    except ValueError:
        spelled = None
    same(spelled, case["spelled"])


def check_prefix(case: Case) -> None:
    """A prefix covers a key, does not, or is none."""
    key = MemoryKey.parse(case["key"])
    try:
        covers: bool | None = KeyPrefix.parse(case["prefix"]).covers(key)
    except ValueError:
        covers = None
    same(covers, case["covers"])


def check_folding(case: Case) -> None:
    """What is denied, in few prefixes."""
    same(list(folded(map(KeyPrefix.parse, case["denied"]), case["most"])), case["folded"])


def check_personal(case: Case) -> None:
    """The kind of personal data in a text."""
    same(personal_data(case["text"]), case["kind"])


def check_report(case: Case) -> None:
    """Every entry of a report gets its decision."""
    settings = Settings(
        memory=Memory(
            enabled=case["enabled"], self_hosted=True, approval_required=case["approval_required"]
        )
    )
    facts = replace(
        FACTS,
        trust=TrustScope(case["trust"]),
        content_trust=TrustScope(case["content"]),
        same_repo=case["same_repo"],
    )
    grant: Grant | None = grant_for(settings, facts, case["sent"])
    if case.get("no_policy"):
        grant = None
    known = {text: entry(**facts) for text, facts in case.get("known", {}).items()}
    report = MemoryUsed.model_validate_json(json.dumps(case["report"]))
    found = judge_memory(grant, report, case["denied"], REDACTOR, NOW, known)
    same([each.reason and each.reason.value for each in found.decisions], case["expect"])
    same(len(found.alarms), case["alarms"])
    if "entries" in case:
        same([each.entry for each in found.decisions], case["entries"])


def check_grant(case: Case) -> None:
    """What a run is granted."""
    deployment = case.get("deployment", "self_hosted")
    memory = {"enabled": True, "self_hosted": True} | case.get("memory", {})
    settings = Settings(server=Server(deployment=deployment), memory=Memory.model_validate(memory))
    changes = dict(case.get("facts", {}))
    for name in ("trust", "content_trust"):
        if name in changes:
            changes[name] = TrustScope(changes[name])
    policy = grant_for(settings, replace(FACTS, **changes), case.get("denied", ())).policy
    expected = case["expect"]
    if expected is None:
        same((policy.enabled, policy.read_scopes, policy.write_scopes), (False, (), ()))
        same(policy.approval_required, True)
        return
    same(policy.enabled, True)
    same(list(policy.read_scopes), expected["reads"])
    same(list(policy.write_scopes), expected["writes"])
    same(policy.approval_required, expected.get("approval", True))
    same(policy.trust_scope, expected.get("trust", changes.get("trust", "maintainer")))
    same(list(policy.denied or ()), list(case.get("denied", ())))


def check_supply(case: Case) -> None:
    """What a run is handed, in order."""
    facts = {**case.get("facts", {})}
    if "trust" in facts:
        facts["trust"] = TrustScope(facts["trust"])
    grant = grant_for(
        Settings(memory=Memory(enabled=True, self_hosted=True)),
        replace(FACTS, **facts),
        case.get("denied", ()),
    )
    entries = [entry(seq=n, **facts) for n, facts in enumerate(case["entries"])]
    found = supply(grant.policy, entries, case.get("budget", 15_000), NOW, REDACTOR.text)
    same([each.id for each in found.entries], case["handed"])
    for hidden in case.get("never", ()):
        same(hidden in found.text, False)
    if "lines" in case:
        same(block(entries[0]).splitlines()[1:], case["lines"])


def check_book(case: Case) -> None:
    """A story of the memory book, step by step; one run proposes at most five entries there."""
    most, book.PROPOSALS_PER_TASK = book.PROPOSALS_PER_TASK, 5
    try:
        with store().write() as tx:
            empty(tx)
            story = Story(tx)
            for step in case["steps"]:
                values = dict(step)
                expected = values.pop("expect", None)
                found = story.tell(values.pop("do"), values)
                same(found, expected, step)
    finally:
        book.PROPOSALS_PER_TASK = most


class Story:
    """The steps of a story. Entries are called by the names that the story gives them."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._called: dict[str, Entry] = {}
        self._names: dict[str, str] = {}

    def tell(self, do: str, said: Case) -> Any:
        """Do one step; what came of it, in words."""
        act: Callable[[Case], Any] = getattr(self, f"_{do}")
        return act(said)

    def _task(self, said: Case) -> None:
        tenant = InstallationId(said.get("tenant", 41))
        task = new_task(
            installation_id=tenant, repo_id=said.get("repo_id", 7), repo_name=said["name"]
        )
        values = {name: getattr(task, name) for name in task.__dataclass_fields__}
        self._tx.execute(tasks.insert().values(**values, updated_at=NOW))

    def _propose(self, said: Case) -> str:
        decided = book.propose(
            _tenant(said), self._tx, _new(said), _when(said), **_keep(said, "approved")
        )
        return self._decided(decided, said)

    def _remember(self, said: Case) -> str:
        new = _new(said | {"source": "command"})
        return self._decided(
            book.remember(_tenant(said), self._tx, new, _by(said), _when(said)), said
        )

    def _approve(self, said: Case, approve: bool = True) -> str:
        about = self._called[said["id"]]
        seen = self._called[said.get("shown", said["id"])]
        options = _keep(said, "four_eyes")
        if "repo_id" in said:
            options["repo_id"] = RepoId(said["repo_id"])
        digest = said.get("hash", seen.text_hash)
        return self._decided(
            book.decide(
                _tenant(said),
                self._tx,
                about.id,
                approve,
                _by(said),
                digest,
                _when(said),
                **options,
            ),
            {},
        )

    def _deny(self, said: Case) -> str:
        return self._approve(said, approve=False)

    def _revoke(self, said: Case) -> str:
        return self._revoked(book.revoke, said)

    def _lift(self, said: Case) -> str:
        return self._revoked(book.lift, said)

    def _redact(self, said: Case) -> str:
        about = self._called[said["id"]]
        return self._decided(book.redact(_tenant(said), self._tx, about.id, _by(said), NOW), {})

    def _rename(self, said: Case) -> None:
        book.follow(
            _tenant(said), self._tx, RepoId(said.get("repo_id", 7)), RepoName("octo", said["name"])
        )

    def _state(self, said: Case) -> str:
        found = book.entry(_tenant(said), self._tx, self._called[said["id"]].id)
        return "nothing" if found is None else found.state.value

    def _key(self, said: Case) -> str | None:
        found = book.entry(_tenant(said), self._tx, self._called[said["id"]].id)
        return found and found.key

    def _text(self, said: Case) -> str | None:
        found = book.entry(_tenant(said), self._tx, self._called[said["id"]].id)
        return found and shown(found.summary)

    def _usable(self, said: Case) -> list[str]:
        found = book.usable(
            _tenant(said),
            self._tx,
            RepoId(said.get("repo_id", 7)),
            _when(said),
            shared=said.get("shared", True),
        )
        return [self._names[each.id] for each in found]

    def _known(self, said: Case) -> dict[str, str]:
        asked = [self._called[text].id if text in self._called else text for text in said["read"]]
        found = book.known(
            _tenant(said),
            self._tx,
            RepoId(said.get("repo_id", 7)),
            RepoName("octo", said.get("name", "demo")),
            asked,
            _when(said),
        )
        return {
            text: self._names[found[key].id]
            for text, key in zip(said["read"], asked, strict=True)
            if key in found
        }

    def _denied(self, said: Case) -> list[str]:
        return list(
            book.denied(
                _tenant(said),
                self._tx,
                RepoId(said.get("repo_id", 7)),
                RepoName("octo", said.get("name", "demo")),
            )
        )

    def _find(self, said: Case) -> list[str]:
        found = book.find(_tenant(said), self._tx, RepoId(said.get("repo_id", 7)), said["text"])
        return [self._names[each.id] for each in found]

    def _listed(self, said: Case) -> list[str]:
        filters = book.Filters(
            prefix=said.get("prefix"),
            text=said.get("text"),
            scope=said.get("scope"),
            repo_id=RepoId(said["repo_id"]) if "repo_id" in said else None,
        )
        return [
            self._names.get(each.id, "stranger")
            for each in book.listed(_tenant(said), self._tx, filters)
        ]

    def _exported(self, said: Case) -> list[str]:
        return [self._names[row["id"]] for row in book.export(_tenant(said), self._tx)]

    def _supplied(self, said: Case) -> int:
        about = self._called[said["id"]]
        book.supplied(_tenant(said), self._tx, TaskId("a" * 32), RepoId(7), [about], NOW)
        found = book.entry(_tenant(said), self._tx, about.id)
        assert found is not None
        return found.supplied

    def _expire(self, said: Case) -> int:
        return len(book_sweeps.expire(self._tx, _when(said)))

    def _drop(self, said: Case) -> int:
        return sum(book_sweeps.drop(self._tx, _when(said)).values())

    def _purge(self, said: Case) -> None:
        while book.purge(_tenant(said), self._tx):
            pass

    def _log(self, said: Case) -> list[str]:
        about = self._called[said["id"]]
        lines = book.history(about.installation_id, self._tx, about)
        return [f"{line.act} by {line.by_login}" for line in lines][::-1]

    def _decided(self, decided: Decided, said: Case) -> str:
        if decided.refused is not None:
            return decided.refused.value
        assert decided.entry is not None
        if "as" in said:
            self._called[said["as"]] = decided.entry
            self._names.setdefault(decided.entry.id, said["as"])
        return decided.entry.state.value + ("" if decided.fresh else " already")

    def _revoked(self, act: Callable[..., Revoked], said: Case) -> str:
        target = self._called[said["id"]].id if "id" in said else said["target"]
        options = {"repo_id": RepoId(said["repo_id"])} if "repo_id" in said else {}
        done = act(_tenant(said), self._tx, target, _by(said), NOW, **options)
        if done.refused is not None:
            return str(Refusal(done.refused))
        return str(done.target) + ("" if done.fresh else " already")


def entry(**changes: Any) -> Entry:
    """An approved entry of the repository of :data:`FACTS`."""
    values: dict[str, Any] = {
        "seq": 1,
        "id": "M-00000000",
        "installation_id": 42,
        "repo_id": 555,
        "repo": "acme/billing",
        "place": "conventions/x",
        "summary": "Round half up.",
        "text_hash": "0" * 64,
        "state": "approved",
        "version": 1,
        "source": "run",
        "trust": "maintainer",
        "decided_by_id": 11,
        "decided_by_login": "ann",
        "decided_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        "supplied": 0,
        "cited": 0,
    }
    values = dict.fromkeys(Entry.__dataclass_fields__) | values | changes
    values["state"] = EntryState(values["state"])
    values["repo"] = RepoName.parse(values["repo"]) if values["repo_id"] else None
    if values["expires_at"] is not None:
        values["expires_at"] = NOW + timedelta(days=values["expires_at"])
    return Entry(**values)


def same(found: Any, expected: Any, where: Any = "") -> None:
    """Raises unless both are the same."""
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r} {where or ''}")


CHECKS: dict[str, Callable[[Case], None]] = {
    "keys": check_key,
    "prefixes": check_prefix,
    "folding": check_folding,
    "personal": check_personal,
    "reports": check_report,
    "grants": check_grant,
    "supply": check_supply,
    "book": check_book,
}
"""Who checks the cases of each file."""


def _tenant(said: Case) -> InstallationId:
    return InstallationId(said.get("tenant", 41))


def _when(said: Case) -> datetime:
    return NOW + timedelta(days=said.get("day", 0))


def _keep(said: Case, *names: str) -> dict[str, Any]:
    options = {name: said[name] for name in names if name in said}
    days = said.get("keep")
    return options | ({"keep": timedelta(days=days)} if days is not None else {})


def _by(said: Case) -> Person:
    who = said.get("by", "ann")
    return Person.operator(who) if who == "opal" else Person({"ann": 11, "ben": 12}[who], who)


def _new(said: Case) -> NewEntry:
    in_repo = not said.get("everywhere", False)
    name = RepoName("octo", said.get("name", "demo")) if in_repo else None
    owner = f"repo/{name}" if name else f"tenant/{_tenant(said)}"
    return NewEntry(
        repo_id=RepoId(said.get("repo_id", 7)) if in_repo else None,
        repo=name,
        key=MemoryKey.parse(said.get("key") or f"{owner}/{said.get('place', 'conv/x')}"),
        summary=said.get("text", "Round half up.") * said.get("times", 1),
        source=Source(said.get("source", "run")),
        trust=TrustScope(said.get("trust", "maintainer")),
        task_id=TaskId(said.get("task", "a") * 32),
        actor_id=11,
        author_id=said.get("author", 12),
    )
