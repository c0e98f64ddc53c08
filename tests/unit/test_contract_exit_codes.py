from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coven.contract import examples
from coven.contract.exit_codes import TABLE, Ending, Outcome, ProcessEnd, Verdict, judge
from coven.contract.result import Result, ResultReading
from coven.contract.stderr import classify
from coven.values import Conclusion, Lane, ResultStatus, Severity

MISSING = ResultReading(None, problem="no result file was written", missing=True)
INVALID = ResultReading(None, problem="review.mode: bad")
REASONS = {"failure": "ambiguous_spec", "needs_input": "ambiguous_spec"}


def reading(status: str = "success", *, fix: bool = True, **changes: Any) -> ResultReading:
    document = examples.result().model_dump(mode="python") | {
        "status": status,
        "exit_reason": REASONS.get(status),
    }
    if fix:
        document |= {
            "branch": "cody/fix-1-abc",
            "commits": ({"sha": "a" * 40, "message": "m"},),
            "review": {
                "mode": "none",
                "evidence_status": "not_applicable",
                "reviewed_files": (),
                "supporting_files": (),
                "findings": (),
                "tests_run": (),
                "no_findings_reason": None,
                "limitations": (),
            },
        }
    review = document["review"] | {
        key.removeprefix("review__"): value
        for key, value in changes.items()
        if key.startswith("review__")
    }
    top = {key: value for key, value in changes.items() if not key.startswith("review__")}
    return ResultReading(Result.model_validate(document | {"review": review} | top))


def verdict(
    end: ProcessEnd | int,
    result: ResultReading = MISSING,
    *,
    lane: Lane = Lane.FIX,
    profile: str = "contract-v2",
    fail_on: Severity | Literal["none"] = "none",
) -> Verdict:
    if isinstance(end, int):
        end = ProcessEnd(exit_code=end)
    return judge(end, result, lane=lane, profile=profile, fail_on=fail_on)


STATUSES = ["success", "partial", "failure", "needs_input"]
READINGS = {"missing": MISSING, "invalid": INVALID, **{name: reading(name) for name in STATUSES}}

FAILED = Conclusion.FAILURE
PINNED: dict[tuple[int, str], tuple[Outcome, bool, Conclusion, bool]] = {
    (0, "success"): (Outcome.succeeded, False, Conclusion.SUCCESS, True),
    (0, "partial"): (Outcome.partial, False, Conclusion.SUCCESS, True),
    (1, "failure"): (Outcome.gave_up, False, FAILED, False),
    (3, "needs_input"): (Outcome.needs_input, False, Conclusion.ACTION_REQUIRED, False),
    **{(2, name): (Outcome.infra, True, FAILED, False) for name in READINGS},
    **{(101, name): (Outcome.infra, True, FAILED, False) for name in READINGS},
    **{(126, name): (Outcome.misconfigured, False, FAILED, False) for name in READINGS},
    **{(127, name): (Outcome.misconfigured, False, FAILED, False) for name in READINGS},
    **{(137, name): (Outcome.killed, True, FAILED, False) for name in READINGS},
}


@pytest.mark.parametrize(
    ("code", "name"), list(itertools.product([0, 1, 2, 3, 101, 126, 127, 137], READINGS))
)
def test_every_code_with_every_result(code: int, name: str) -> None:
    violation = (Outcome.contract_violation, False, FAILED, False)
    found = verdict(code, READINGS[name])
    assert (found.outcome, found.retry, found.conclusion, found.opens_pr) == PINNED.get(
        (code, name), violation
    )
    assert found.status == (ResultStatus(name) if name in STATUSES else None)


def test_a_contradiction_is_named() -> None:
    text = verdict(0, reading("failure")).text
    assert "code 0" in text
    assert "failure" in text


def test_a_broken_result_names_the_problem() -> None:
    assert "review.mode: bad" in verdict(0, INVALID).text
    braces = ResultReading(None, problem="a {detail} {0} b")
    assert "a {detail} {0} b" in verdict(0, braces).text


@pytest.mark.parametrize(
    ("end", "outcome", "retry"),
    [
        (ProcessEnd(signal=9), Outcome.killed, True),
        (ProcessEnd(exit_code=-15), Outcome.killed, True),
        (ProcessEnd(timed_out=True, signal=9), Outcome.timed_out, True),
        (ProcessEnd(timed_out=True, exit_code=0), Outcome.timed_out, True),
        (ProcessEnd(breach="memory", signal=9), Outcome.limit, True),
        (ProcessEnd(breach="disk", timed_out=True), Outcome.limit, True),
        (ProcessEnd(), Outcome.infra, True),
        (ProcessEnd(exit_code=255), Outcome.infra, True),
        (ProcessEnd(spawn_error="FileNotFoundError: coven-code"), Outcome.misconfigured, False),
        (ProcessEnd(spawn_error="[Errno 13] Permission denied"), Outcome.misconfigured, False),
        (ProcessEnd(spawn_error="Resource temporarily unavailable"), Outcome.infra, True),
    ],
)
@pytest.mark.parametrize("name", READINGS)
def test_ends_without_a_say_of_the_result(
    end: ProcessEnd, outcome: Outcome, retry: bool, name: str
) -> None:
    found = verdict(end, READINGS[name])
    assert (found.outcome, found.retry) == (outcome, retry)
    assert found.conclusion is Conclusion.FAILURE
    assert not found.opens_pr


@pytest.mark.parametrize(
    ("reason", "retry", "words"),
    [
        ("cancelled: the app was uninstalled", False, "the app was uninstalled"),
        ("cancelled", False, "cancelled."),
        ("superseded: a newer push", False, "a newer push"),
        ("lease lost", False, "Another worker"),
        ("drain", True, "back to the queue"),
        ("governance: rule R001", False, "rule R001"),
    ],
)
def test_our_own_stop_comes_before_everything(reason: str, retry: bool, words: str) -> None:
    end = ProcessEnd(exit_code=0, signal=15, timed_out=True, breach="memory", stop_reason=reason)
    found = verdict(end, reading())
    assert (found.outcome, found.retry) == (Outcome.stopped, retry)
    assert found.conclusion is Conclusion.CANCELLED
    assert words in found.text


def test_a_pull_request_needs_branch_and_commits_in_contract_v2() -> None:
    assert verdict(0, reading()).opens_pr
    assert not verdict(0, reading(branch=None)).opens_pr
    assert not verdict(0, reading(commits=())).opens_pr
    assert verdict(0, reading(branch=None, commits=()), profile="coven-code").opens_pr


def test_a_review_never_opens_a_pull_request() -> None:
    found = verdict(0, reading(fix=False), lane=Lane.REVIEW)
    assert found.outcome is Outcome.succeeded
    assert not found.opens_pr


def test_a_review_without_review_evidence_is_a_violation() -> None:
    for status in ("success", "partial"):
        found = verdict(0, reading(status), lane=Lane.REVIEW)
        assert (found.outcome, found.conclusion) == (Outcome.contract_violation, FAILED)


@pytest.mark.parametrize(
    ("evidence", "fail_on", "conclusion"),
    [
        ("complete", "none", Conclusion.SUCCESS),
        ("partial", "none", Conclusion.NEUTRAL),
        ("missing", "none", Conclusion.NEUTRAL),
        ("complete", Severity.HIGH, Conclusion.SUCCESS),
        ("complete", Severity.MEDIUM, Conclusion.FAILURE),
        ("complete", Severity.INFO, Conclusion.FAILURE),
        ("partial", Severity.LOW, Conclusion.FAILURE),
        ("partial", Severity.CRITICAL, Conclusion.NEUTRAL),
    ],
)
def test_reviews_tighten_exit_0(
    evidence: str, fail_on: Severity | Literal["none"], conclusion: Conclusion
) -> None:
    result = reading("partial", fix=False, review__evidence_status=evidence)
    found = verdict(0, result, lane=Lane.REVIEW, fail_on=fail_on)
    assert found.conclusion is conclusion
    assert found.outcome is Outcome.partial


ARGUMENTS = [
    "error: unexpected argument '--max-turns' found\n\nUsage: coven-code [OPTIONS]",
    "error: invalid value 'x' for '--max-turns <N>': invalid digit",
    "error: the following required arguments were not provided:",
    "usage: coven-code [-h]\ncoven-code: error: unrecognized arguments: --x",
]
DETERMINISTIC = [
    "Error: turn limit reached (60)",
    "Error: max turns reached",
    "WARN query: maximum turns (10) exceeded, error",
    "Error: API error: HTTP 401 Unauthorized",
    'Error: {"type":"authentication_error","message":"invalid x-api-key"}',
    "Error: request failed with status 403",
    "Error: status code: 400 invalid_request_error",
    "Error: HTTP 404: model not found",
]
PASSING = [
    "",
    "Error: HTTP 429 Too Many Requests",
    "Error: status 408",
    "Error: HTTP 503",
    "Error: stream stalled for 45 s",
    "[ToolUse] Bash: echo 'Error: turn limit reached'",
    "listening on port 4010, line 401 of the file",
]


@pytest.mark.parametrize("stderr", DETERMINISTIC)
def test_deterministic_failures_stop_the_retry_of_the_real_runtime(stderr: str) -> None:
    end = ProcessEnd(exit_code=2, stderr_tail=stderr)
    for result in (MISSING, reading("failure")):
        found = verdict(end, result, profile="coven-code")
        assert (found.outcome, found.retry) == (Outcome.infra, False)
        assert verdict(end, result).retry


@pytest.mark.parametrize("stderr", ARGUMENTS)
def test_refused_flags_stop_the_retry_only_without_a_result(stderr: str) -> None:
    end = ProcessEnd(exit_code=2, stderr_tail=stderr)
    assert not verdict(end, MISSING, profile="coven-code").retry
    assert verdict(end, reading("failure"), profile="coven-code").retry
    assert verdict(end, MISSING).retry


@pytest.mark.parametrize("stderr", PASSING)
def test_other_failures_are_retried(stderr: str) -> None:
    end = ProcessEnd(exit_code=2, stderr_tail=stderr)
    for result in (MISSING, reading("failure")):
        assert verdict(end, result, profile="coven-code").retry


@given(
    stderr=st.text() | st.sampled_from(DETERMINISTIC + ARGUMENTS + PASSING),
    code=st.sampled_from([None, 0, 1, 2, 3, 101, 126, 137]),
    name=st.sampled_from(list(READINGS)),
)
def test_stderr_can_do_no_more_than_stop_a_retry_of_2(
    stderr: str, code: int | None, name: str
) -> None:
    silent = verdict(ProcessEnd(exit_code=code), READINGS[name], profile="coven-code")
    loud = verdict(
        ProcessEnd(exit_code=code, stderr_tail=stderr), READINGS[name], profile="coven-code"
    )
    if code == 2:
        assert dataclasses.replace(loud, retry=True, text=silent.text) == silent
    else:
        assert loud == silent


def test_only_the_end_of_stderr_is_looked_at() -> None:
    assert classify("Error: turn limit reached\n" + "x\n" * 100, without_result=False) is None


def test_the_table_names_every_ending_and_has_a_next_step_for_failures() -> None:
    assert {ending for ending, _ in TABLE} == set(Ending)
    for row in TABLE.values():
        assert row.text.endswith((".", "}."))
        assert not (row.opens_pr and row.conclusion is not Conclusion.SUCCESS)
        if row.conclusion is Conclusion.FAILURE:
            steps = ("Ask the operator", "ask the operator", "retry")
            assert any(step in row.text for step in steps)
