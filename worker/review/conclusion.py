"""Which conclusion a Check Run shows: one table. ``docs/publishing.md`` holds it, a test compares.

The exit matrix (:mod:`coven.contract.exit_codes`) judges a process; this names its judgement in
GitHub's words. Two rows differ from the matrix' own column, in name only: a last attempt that ran
out of time *fails* (headless contract, section 4) and says ``timed_out``, which blocks a required
check exactly as ``failure`` does; and work that newer work replaced is ``neutral``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from coven.contract.exit_codes import Outcome, Verdict
from coven.values import Conclusion, Severity


class Case(StrEnum):
    """What a task came to, in the words of the table."""

    DONE = "work done, or review with complete evidence"
    SERIOUS = "review with findings at or above `review.fail_on`"
    WEAK = "review with partial or missing evidence"
    QUESTION = "the familiar has a question"
    APPROVAL = "an outsider's head waits for a maintainer"
    GAVE_UP = "the familiar gave up (exit 1)"
    BROKEN = "answer broke the contract, runtime can't be started, or a limit was broken"
    INFRA = "technical failure in the last attempt (exit 2, signal, unknown code)"
    TIMED_OUT = "time limit reached in the last attempt"
    NO_PULL_REQUEST = "work was pushed, but its pull request could not be opened"
    CANCELLED = "cancelled, declined, or the App was uninstalled"
    SUPERSEDED = "a newer commit or newer work replaces it, or the head moved meanwhile"


TABLE: Mapping[Case, Conclusion] = MappingProxyType(
    {
        Case.DONE: Conclusion.SUCCESS,
        Case.SERIOUS: Conclusion.FAILURE,
        Case.WEAK: Conclusion.NEUTRAL,
        Case.QUESTION: Conclusion.ACTION_REQUIRED,
        Case.APPROVAL: Conclusion.ACTION_REQUIRED,
        Case.GAVE_UP: Conclusion.FAILURE,
        Case.BROKEN: Conclusion.FAILURE,
        Case.INFRA: Conclusion.FAILURE,
        Case.TIMED_OUT: Conclusion.TIMED_OUT,
        Case.NO_PULL_REQUEST: Conclusion.FAILURE,
        Case.CANCELLED: Conclusion.CANCELLED,
        Case.SUPERSEDED: Conclusion.NEUTRAL,
    }
)

_CASES = {
    Outcome.gave_up: Case.GAVE_UP,
    Outcome.needs_input: Case.QUESTION,
    Outcome.infra: Case.INFRA,
    Outcome.killed: Case.INFRA,
    Outcome.timed_out: Case.TIMED_OUT,
    Outcome.limit: Case.BROKEN,
    Outcome.contract_violation: Case.BROKEN,
    Outcome.misconfigured: Case.BROKEN,
    Outcome.stopped: Case.CANCELLED,
}
_DONE = {
    Conclusion.SUCCESS: Case.DONE,
    Conclusion.FAILURE: Case.SERIOUS,
    Conclusion.NEUTRAL: Case.WEAK,
}


def case_of(verdict: Verdict) -> Case:
    """The row that a verdict falls into. Pure."""
    return _CASES.get(verdict.outcome) or _DONE.get(verdict.conclusion, Case.DONE)


def concluded(verdict: Verdict) -> Conclusion:
    """What the Check Run says."""
    return TABLE[case_of(verdict)]


def concluded_review(evidence: str, findings: Iterable[Severity], fail_on: str) -> Conclusion:
    """What the Check Run of a finished review says: only findings that are shown count."""
    if fail_on != "none" and any(each.rank >= Severity(fail_on).rank for each in findings):
        return TABLE[Case.SERIOUS]
    return TABLE[Case.DONE if evidence == "complete" else Case.WEAK]


def table() -> str:
    """The table as Markdown, as it stands in the documentation."""
    rows = [f"| {case} | `{conclusion}` |" for case, conclusion in TABLE.items()]
    return "\n".join(["| what happened | conclusion |", "|---|---|", *rows])
