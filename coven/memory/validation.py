"""Judging what a run says about memory against what it was granted. Pure.

The report is a claim. Every entry of it gets a decision, and every decision is kept, accepted or
not; that a part of it is refused never speaks against the review itself. Source: memory contract,
"Adapter enforcement points" and "Redaction".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from coven.contract.memory import MemoryPolicy, MemoryProposal, MemoryRead, MemoryUsed
from coven.memory.book import SUMMARY_CHARS, Entry
from coven.memory.keys import KeyPrefix, MemoryKey
from coven.memory.pii import personal_data
from coven.memory.policy import Grant
from coven.redaction import MASK, Redactor
from coven.values import RepoName, TrustScope

WITHHELD = "[withheld]"
"""Stands in records for a text that must not be kept."""

_BATCH = 250
_NEVER_WRITE = frozenset({TrustScope.EXTERNAL, TrustScope.FORK_PR})


class Reason(StrEnum):
    """Why an entry is refused. The first four are the contract's own."""

    OUT_OF_SCOPE = "out_of_scope"
    SECRET = "secret"  # noqa: S105 - a reason code
    PII = "pii"
    LOW_CONFIDENCE = "low_confidence"
    REVOKED = "revoked"
    NOT_ADDRESSABLE = "not_addressable"
    APPROVAL_REQUIRED = "approval_required"
    POLICY_DISABLED = "policy_disabled"


class Kind(StrEnum):
    """Which list of the report an entry stood in."""

    READ = "read"
    PROPOSED = "proposed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one entry. ``reason`` is None exactly when it was accepted."""

    kind: Kind
    index: int
    """Its place in its list of the report."""
    target: str | None
    """The key in its one spelling, or as reported when it is none; withheld if it must not stay."""
    scope: str
    reason: Reason | None
    summary: str | None = None
    approval: str | None = None
    """As claimed by the runtime."""
    alarm: bool = False
    """The runtime used memory that it was never granted."""
    detail: str | None = None
    entry: str | None = None
    """Id of the entry in the book that it is about; None when the book has none."""

    @property
    def accepted(self) -> bool:
        """Whether it may be cited (read) or put before a maintainer or the book (proposed)."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Judged:
    """All decisions on one report, in its order: reads, proposals, the runtime's own refusals."""

    decisions: tuple[Decision, ...]
    at: datetime

    def of(self, kind: Kind, *, accepted: bool) -> list[Decision]:
        """Those of one list that were, or were not, accepted."""
        return [d for d in self.decisions if d.kind is kind and d.accepted is accepted]

    @property
    def alarms(self) -> list[Decision]:
        """Reads beyond the grant."""
        return [decision for decision in self.decisions if decision.alarm]


def judge_memory(
    grant: Grant | None,
    report: MemoryUsed | None,
    denied: Sequence[str] | None,
    redactor: Redactor,
    now: datetime,
    known: Mapping[str, Entry] | None = None,
) -> Judged:
    """Decide on every entry of ``report``. Never raises for what a report says.

    ``grant`` is what was sent, None if nothing was. ``denied`` is what is revoked by now, on top
    of what the policy said; None when that can't be read, which refuses everything. ``known`` are
    the entries of the book that reported reads stand for, by key or id as it was reported.
    """
    if report is None:
        return Judged((), now)
    judge = _Judge(grant, report, denied, redactor, known or {})
    return Judged(tuple(judge.decisions()), now)


class _Judge:
    def __init__(
        self,
        grant: Grant | None,
        report: MemoryUsed,
        denied: Sequence[str] | None,
        redactor: Redactor,
        known: Mapping[str, Entry],
    ) -> None:
        self._report = report
        self._known = known
        self._policy: MemoryPolicy | None = None
        self._writer = grant.writer if grant is not None else TrustScope.EXTERNAL
        self._redactor = redactor
        self._denied: tuple[KeyPrefix, ...] = ()
        self._own: RepoName | None = None
        if grant is not None and grant.policy.enabled and report.enabled and denied is not None:
            self._grant(grant.policy, denied)
        texts = [
            *(read.id for read in report.read),
            *(text for each in report.proposed for text in (each.key, each.summary)),
            *(each.summary for each in report.rejected),
        ]
        self._secret = set(_with_secrets(texts, redactor))

    def _grant(self, policy: MemoryPolicy, denied: Sequence[str]) -> None:
        try:
            prefixes = tuple(map(KeyPrefix.parse, (*(policy.denied or ()), *denied)))
        except ValueError:
            return  # What is revoked is not understood, so everything may be.
        if policy.repo_scope is None or policy.tenant_scope is None:
            return
        self._policy, self._denied = policy, prefixes
        self._own = RepoName(policy.repo_scope.owner, policy.repo_scope.name)

    def decisions(self) -> Iterator[Decision]:
        for index, read in enumerate(self._report.read):
            yield self._read(index, read)
        for index, proposal in enumerate(self._report.proposed):
            yield self._proposal(index, proposal)
        for index, rejected in enumerate(self._report.rejected):
            yield Decision(
                Kind.REJECTED,
                index,
                None,
                rejected.scope,
                Reason(rejected.reason),
                summary=self._kept(rejected.summary),
                detail="refused by the runtime itself",
            )

    def _read(self, index: int, read: MemoryRead) -> Decision:
        entry = self._known.get(read.id)
        key, reason, detail = self._address(entry.key if entry else read.id, read.scope)
        policy = self._policy
        if policy is None:
            reason = Reason.POLICY_DISABLED
        elif reason is None and read.scope not in policy.read_scopes:
            reason = Reason.OUT_OF_SCOPE
        return Decision(
            Kind.READ,
            index,
            str(key) if key is not None else self._kept(read.id),
            read.scope,
            reason,
            alarm=reason is not None and reason is not Reason.PII,
            detail=detail,
            entry=entry.id if entry is not None and reason is None else None,
        )

    def _proposal(self, index: int, proposal: MemoryProposal) -> Decision:
        key, reason, detail = self._address(proposal.key, proposal.scope)
        if self._policy is None:
            reason = Reason.POLICY_DISABLED
        elif self._writer in _NEVER_WRITE:
            # The load-bearing rule: whatever else is wrong with it, this comes first.
            reason = Reason.OUT_OF_SCOPE
        elif proposal.summary in self._secret:
            reason = Reason.SECRET
        elif reason is None:
            reason = self._may_write(self._policy, proposal)
        if reason is None and (found := personal_data(proposal.summary)):
            reason, detail = Reason.PII, found
        if reason is None and not proposal.summary.strip():
            reason, detail = Reason.LOW_CONFIDENCE, "says nothing"
        if reason is None and len(proposal.summary) > SUMMARY_CHARS:
            reason, detail = Reason.LOW_CONFIDENCE, f"longer than {SUMMARY_CHARS} characters"
        return Decision(
            Kind.PROPOSED,
            index,
            str(key) if key is not None else self._kept(proposal.key),
            proposal.scope,
            reason,
            summary=self._kept(proposal.summary),
            approval=proposal.approval,
            detail=detail,
        )

    def _may_write(self, policy: MemoryPolicy, proposal: MemoryProposal) -> Reason | None:
        pending = proposal.approval == "pending"
        if proposal.scope in policy.write_scopes:
            return Reason.APPROVAL_REQUIRED if policy.approval_required and not pending else None
        # A collaborator has no write scope and may still propose, for a maintainer to approve.
        if self._writer is TrustScope.COLLABORATOR and proposal.scope == "repo":
            if "repo" not in policy.read_scopes:
                return Reason.OUT_OF_SCOPE
            return None if pending else Reason.APPROVAL_REQUIRED
        return Reason.OUT_OF_SCOPE

    def _address(self, text: str, scope: str) -> tuple[MemoryKey | None, Reason | None, str | None]:
        """The key when it may be shown, and what speaks against the place it names."""
        if text in self._secret:
            return None, Reason.SECRET, None
        try:
            key = MemoryKey.parse(text)
        except ValueError as error:
            # The message quotes a part of the key.
            quotable = personal_data(text) is None
            return None, Reason.NOT_ADDRESSABLE, str(error) if quotable else None
        found = personal_data(text)
        shown = None if found else key
        if not self._owns(key, scope):
            return shown, Reason.OUT_OF_SCOPE, None
        if any(prefix.covers(key) for prefix in self._denied):
            return shown, Reason.REVOKED, None
        return shown, Reason.PII if found else None, found

    def _owns(self, key: MemoryKey, scope: str) -> bool:
        policy = self._policy
        if policy is None or policy.tenant_scope is None:
            return False
        if scope == "repo":
            return key.owner.repo is not None and key.owner.repo == self._own
        if scope == "tenant_shared":
            return key.owner.installation_id == policy.tenant_scope.installation_id
        return False  # familiar_global has no owner, so nobody could take it back.

    def _kept(self, text: str) -> str:
        return WITHHELD if text in self._secret or personal_data(text) else text


def _with_secrets(texts: Sequence[str], redactor: Redactor) -> Iterator[str]:
    """Those that hold a secret, or held one before they were scrubbed."""
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        joined = "\n\n".join(batch)
        # Apart, none can hold what all together don't; the other way round it may well be.
        if MASK not in joined and not redactor.has_secret(joined):
            continue
        for text in batch:
            if MASK in text or redactor.has_secret(text):
                yield text
