"""How a session ended, and what follows: one table (headless contract, section 4).

The exit code decides; what the result file says is detail. ``docs/exit-matrix.md`` is generated
from ``TABLE``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from coven.contract.result import ResultReading, Review
from coven.contract.stderr import Cause, classify
from coven.values import Conclusion, Lane, ResultStatus, Severity


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """Facts about the end of the process tree; texts are redacted and bounded.

    ``stop_reason`` is set when we ended it for a reason of our own: ``cancelled: …``,
    ``superseded: …``, ``lease lost``, ``drain``. ``breach`` names a limit that it broke.
    """

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stop_reason: str | None = None
    breach: str | None = None
    spawn_error: str | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    duration_secs: float = 0.0
    peak_rss_bytes: int | None = None


class Outcome(StrEnum):
    """What an attempt came to."""

    succeeded = "succeeded"
    partial = "partial"
    gave_up = "gave_up"
    needs_input = "needs_input"
    infra = "infra"
    timed_out = "timed_out"
    killed = "killed"
    limit = "limit"
    contract_violation = "contract_violation"
    misconfigured = "misconfigured"
    stopped = "stopped"


class Ending(StrEnum):
    """How the process ended, in the order in which the facts count."""

    CANCELLED = "stopped: cancelled"
    SUPERSEDED = "stopped: superseded"
    DRAINED = "stopped: worker drains"
    LEASE_LOST = "stopped: lease lost"
    STOPPED = "stopped: other"
    NOT_EXECUTABLE = "runtime not found or not executable (also 126, 127)"
    SPAWN_FAILED = "spawn failed otherwise"
    LIMIT = "broke a limit"
    TIMED_OUT = "deadline passed"
    SIGNAL = "killed by a signal (also 128 + n)"
    CODE_0 = "exit 0"
    CODE_1 = "exit 1"
    CODE_2 = "exit 2"
    CODE_3 = "exit 3"
    OTHER = "any other code"


class Envelope(StrEnum):
    """What the result file holds; ``ANY`` where the exit alone decides."""

    MISSING = "missing"
    INVALID = "invalid"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"
    NEEDS_INPUT = "needs_input"
    WRONG_KIND = "not a review"
    """Exit 0 on a review lane, but the envelope says that no review took place."""
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the matrix. ``text`` may use ``{problem}``, ``{detail}`` and ``{status}``."""

    outcome: Outcome
    retry: bool
    conclusion: Conclusion
    text: str
    opens_pr: bool = False


_FAIL = Conclusion.FAILURE
_BROKEN = "The familiar's answer broke the contract ({problem}), so nothing of it was used. "
_TELL_OPERATOR = "Ask the operator to look at the attempt's log."
_MISSING_TEXT = "The familiar exited with {detail} without writing a result. " + _TELL_OPERATOR


def _contradiction(claim: str) -> Row:
    text = f"The familiar exited with {{detail}} but its result says {{status}}: {claim}. "
    return Row(Outcome.contract_violation, False, _FAIL, text + _TELL_OPERATOR)


def _code(code: int, rows: Mapping[Envelope, Row]) -> dict[tuple[Ending, Envelope], Row]:
    ending = {0: Ending.CODE_0, 1: Ending.CODE_1, 3: Ending.CODE_3}[code]
    violation = Outcome.contract_violation
    return {
        (ending, Envelope.MISSING): Row(violation, False, _FAIL, _MISSING_TEXT),
        (ending, Envelope.INVALID): Row(violation, False, _FAIL, _BROKEN + _TELL_OPERATOR),
        **{(ending, envelope): row for envelope, row in rows.items()},
    }


_WINS = "the exit code counts, so nothing is published as done"

TABLE: Mapping[tuple[Ending, Envelope], Row] = {
    (Ending.CANCELLED, Envelope.ANY): Row(
        Outcome.stopped, False, Conclusion.CANCELLED, "The session was cancelled{detail}."
    ),
    (Ending.SUPERSEDED, Envelope.ANY): Row(
        Outcome.stopped,
        False,
        Conclusion.CANCELLED,
        "The session was stopped because newer work replaces it{detail}.",
    ),
    (Ending.DRAINED, Envelope.ANY): Row(
        Outcome.stopped,
        True,
        Conclusion.CANCELLED,
        "The worker is shutting down; the task goes back to the queue by itself.",
    ),
    (Ending.LEASE_LOST, Envelope.ANY): Row(
        Outcome.stopped,
        False,
        Conclusion.CANCELLED,
        "Another worker has taken over this task; this attempt stopped.",
    ),
    (Ending.STOPPED, Envelope.ANY): Row(
        Outcome.stopped, False, Conclusion.CANCELLED, "The session was stopped{detail}."
    ),
    (Ending.NOT_EXECUTABLE, Envelope.ANY): Row(
        Outcome.misconfigured,
        False,
        _FAIL,
        "The runtime could not be started because it was not found or is not executable. "
        "Ask the operator to run `coven-github doctor`.",
    ),
    (Ending.SPAWN_FAILED, Envelope.ANY): Row(
        Outcome.infra,
        True,
        _FAIL,
        "The runtime could not be started. " + _TELL_OPERATOR,
    ),
    (Ending.LIMIT, Envelope.ANY): Row(
        Outcome.limit,
        True,
        _FAIL,
        "The session was ended because it went over its limit ({detail}). "
        "Narrow the request, or ask the operator to raise the limit.",
    ),
    (Ending.TIMED_OUT, Envelope.ANY): Row(
        Outcome.timed_out,
        True,
        _FAIL,
        "The session reached its time limit and was ended. "
        "Narrow the request, or ask the operator to raise `worker.timeout_secs`.",
    ),
    (Ending.SIGNAL, Envelope.ANY): Row(
        Outcome.killed,
        True,
        _FAIL,
        "The session was killed by {detail}. " + _TELL_OPERATOR,
    ),
    **_code(
        0,
        {
            Envelope.SUCCESS: Row(
                Outcome.succeeded, False, Conclusion.SUCCESS, "The familiar finished.", True
            ),
            Envelope.PARTIAL: Row(
                Outcome.partial,
                False,
                Conclusion.SUCCESS,
                "The familiar finished a part of the work; its summary says what is left.",
                True,
            ),
            Envelope.FAILURE: _contradiction(_WINS),
            Envelope.NEEDS_INPUT: _contradiction(_WINS),
            Envelope.WRONG_KIND: Row(
                Outcome.contract_violation,
                False,
                _FAIL,
                "A review was asked for, but the result holds no review evidence "
                "(review.mode is none). " + _TELL_OPERATOR,
            ),
        },
    ),
    **_code(
        1,
        {
            Envelope.FAILURE: Row(
                Outcome.gave_up,
                False,
                _FAIL,
                "The familiar gave up; its summary says why. Give it more to go on and retry.",
            ),
            Envelope.SUCCESS: _contradiction(_WINS),
            Envelope.PARTIAL: _contradiction(_WINS),
            Envelope.NEEDS_INPUT: _contradiction(_WINS),
        },
    ),
    (Ending.CODE_2, Envelope.ANY): Row(
        Outcome.infra,
        True,
        _FAIL,
        "The session failed for a technical reason{detail}. " + _TELL_OPERATOR,
    ),
    **_code(
        3,
        {
            Envelope.NEEDS_INPUT: Row(
                Outcome.needs_input,
                False,
                Conclusion.ACTION_REQUIRED,
                "The familiar has a question; answer it on this thread to go on.",
            ),
            Envelope.SUCCESS: _contradiction("exit 3 is a question, and needs one"),
            Envelope.PARTIAL: _contradiction("exit 3 is a question, and needs one"),
            Envelope.FAILURE: _contradiction("exit 3 is a question, and needs one"),
        },
    ),
    (Ending.OTHER, Envelope.ANY): Row(
        Outcome.infra,
        True,
        _FAIL,
        "The session ended in an unexpected way ({detail}). " + _TELL_OPERATOR,
    ),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from an end. ``retry`` asks for another attempt if the budget allows.

    ``opens_pr`` says that the outcome is one that opens a pull request; where the adapter commits
    (profile ``coven-code``) whether there is anything to open is for the push to find out.
    ``status`` is the result's own word, None without a valid result.
    """

    outcome: Outcome
    retry: bool
    conclusion: Conclusion
    status: ResultStatus | None
    text: str
    opens_pr: bool


def judge(
    end: ProcessEnd,
    reading: ResultReading,
    *,
    lane: Lane,
    profile: str,
    fail_on: Severity | Literal["none"],
) -> Verdict:
    """The verdict on one attempt. Pure: the same facts give the same verdict."""
    ending = ending_of(end)
    row = _row(ending, _envelope(reading, ending, lane))
    result = reading.result
    retry = row.retry
    cause = None
    if ending is Ending.CODE_2 and profile == "coven-code":
        cause = classify(end.stderr_tail, without_result=reading.missing)
        retry = retry and cause is None
    conclusion = row.conclusion
    text = _text(row.text, end, reading, ending, cause)
    if row.conclusion is Conclusion.SUCCESS and lane is Lane.REVIEW and result is not None:
        conclusion = review_conclusion(result.review, fail_on)
    opens_pr = row.opens_pr and lane is Lane.FIX and result is not None
    if opens_pr and result is not None and profile != "coven-code":
        opens_pr = result.branch is not None and bool(result.commits)
    return Verdict(
        row.outcome, retry, conclusion, result.outcome if result else None, text, opens_pr
    )


def review_conclusion(review: Review, fail_on: Severity | Literal["none"]) -> Conclusion:
    """The two tightenings on review lanes: serious findings fail, weak evidence is neutral."""
    if fail_on != "none" and any(
        finding.level.rank >= Severity(fail_on).rank for finding in review.findings
    ):
        return Conclusion.FAILURE
    if review.evidence_status in ("partial", "missing"):
        return Conclusion.NEUTRAL
    return Conclusion.SUCCESS


_STOPS = {
    "cancelled": Ending.CANCELLED,
    "superseded": Ending.SUPERSEDED,
    "drain": Ending.DRAINED,
    "lease lost": Ending.LEASE_LOST,
}
_NOT_EXECUTABLE = re.compile(
    r"(?i)no such file|not found|FileNotFound|permission denied|PermissionError|exec format"
    r"|not executable|ENOENT|EACCES|ENOEXEC|is a directory|not a directory"
)
_CODES = {0: Ending.CODE_0, 1: Ending.CODE_1, 2: Ending.CODE_2, 3: Ending.CODE_3}


def ending_of(end: ProcessEnd) -> Ending:
    """Which of the facts counts: our own stop first, then why it could not run, then its code."""
    if end.stop_reason is not None:
        return _STOPS.get(end.stop_reason.partition(":")[0].strip(), Ending.STOPPED)
    if end.spawn_error is not None:
        found = _NOT_EXECUTABLE.search(end.spawn_error)
        return Ending.NOT_EXECUTABLE if found else Ending.SPAWN_FAILED
    if end.breach is not None:
        return Ending.LIMIT
    if end.timed_out:
        return Ending.TIMED_OUT
    code = end.exit_code
    if end.signal is not None or (code is not None and (code < 0 or 128 < code <= 192)):
        return Ending.SIGNAL
    if code in (126, 127):
        return Ending.NOT_EXECUTABLE
    return Ending.OTHER if code is None else _CODES.get(code, Ending.OTHER)


def _envelope(reading: ResultReading, ending: Ending, lane: Lane) -> Envelope:
    if reading.result is None:
        return Envelope.MISSING if reading.missing else Envelope.INVALID
    if (
        ending is Ending.CODE_0
        and lane is Lane.REVIEW
        and reading.result.review.mode == "none"
        and reading.result.status in ("success", "partial")
    ):
        return Envelope.WRONG_KIND
    return Envelope(reading.result.status)


def _row(ending: Ending, envelope: Envelope) -> Row:
    return TABLE.get((ending, envelope)) or TABLE[ending, Envelope.ANY]


def _text(
    template: str, end: ProcessEnd, reading: ResultReading, ending: Ending, cause: Cause | None
) -> str:
    detail = f"code {end.exit_code}" if end.exit_code is not None else "no exit code"
    if ending in (Ending.CANCELLED, Ending.SUPERSEDED, Ending.STOPPED):
        reason = (end.stop_reason or "").partition(":")[2].strip()
        detail = f": {reason}" if reason else ""
    elif ending is Ending.LIMIT:
        detail = end.breach or "unnamed"
    elif ending is Ending.SIGNAL:
        number = end.signal or abs(end.exit_code or 0) % 128
        detail = f"signal {number}" + (" (often: out of memory)" if number == 9 else "")
    elif ending is Ending.CODE_2:
        detail = f" ({cause.text})" if cause else ""
    status = reading.result.status if reading.result else "nothing"
    return template.format(detail=detail, problem=reading.problem or "unreadable", status=status)
