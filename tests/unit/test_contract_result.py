from __future__ import annotations

import copy
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.contract import examples
from coven.contract.cleaning import clean
from coven.contract.dialect import MAX_LISTED
from coven.contract.result import (
    MAX_BYTES,
    Result,
    ResultReading,
    normalise,
    read_result,
    validate,
)
from coven.errors import SecretFound
from coven.redaction import Redactor

FIXTURES = Path(__file__).parents[1] / "fixtures" / "contract"
TOKEN = "ghs_" + "a1B2c3D4e5" * 4


def good() -> dict[str, Any]:
    return examples.result().model_dump(mode="json")


def changed(**changes: Any) -> dict[str, Any]:
    document = good()
    for path, value in changes.items():
        holder: Any = document
        *parents, last = path.split("__")
        for key in parents:
            holder = holder[int(key) if key.isdigit() else key]
        holder[int(last) if last.isdigit() else last] = value
    return document


def read(
    folder: Path, content: bytes | None = None, *, not_before: float = 0, **options: Any
) -> ResultReading:
    if content is not None:
        (folder / "r.json").write_bytes(content)
    return read_result(folder, "r.json", not_before=not_before, expected_version="2", **options)


def check(document: dict[str, Any], **options: Any) -> ResultReading:
    return validate(document, expected_version="2", **options)


# The file


def test_a_good_file_is_read(tmp_path: Path) -> None:
    reading = read(tmp_path, json.dumps(good()).encode(), not_before=time.time())
    assert reading == ResultReading(examples.result())


def test_no_file_is_missing_and_says_so(tmp_path: Path) -> None:
    assert read(tmp_path) == ResultReading(None, problem="no result file was written", missing=True)
    assert read(tmp_path / "gone").missing


def refused(reading: ResultReading, words: str) -> None:
    assert reading.result is None
    assert not reading.missing
    assert words in (reading.problem or "")


def test_everything_but_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    start = time.monotonic()
    target.symlink_to("/etc/passwd")
    refused(read(tmp_path), "a symbolic link")
    target.unlink()
    os.mkfifo(target)
    refused(read(tmp_path), "a pipe")
    target.unlink()
    target.mkdir()
    refused(read(tmp_path), "a folder")
    target.rmdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(target))
        refused(read(tmp_path), "a socket")
    assert time.monotonic() - start < 1


def test_a_device_is_refused() -> None:
    refused(read_result(Path("/dev"), "zero", not_before=0, expected_version="2"), "a device")


def test_a_huge_sparse_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    with (tmp_path / "r.json").open("wb") as file:
        file.truncate(5 * 2**30)
    start = time.monotonic()
    refused(read(tmp_path), "larger than")
    assert time.monotonic() - start < 1


def test_one_byte_over_the_limit_is_refused_and_the_limit_itself_is_read(tmp_path: Path) -> None:
    raw = json.dumps(good()).encode()
    assert read(tmp_path, raw + b" " * (MAX_BYTES - len(raw))).result is not None
    refused(read(tmp_path, raw + b" " * (MAX_BYTES + 1 - len(raw))), "larger than")


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"{}")
    (tmp_path / "r.json").hardlink_to(tmp_path / "other")
    refused(read(tmp_path), "hard link")


def test_an_unreadable_file_is_refused_for_root_too(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"{}")
    (tmp_path / "r.json").chmod(0)
    refused(read(tmp_path), "not readable")


def test_a_stale_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(good()))
    os.utime(tmp_path / "r.json", (1, time.time() - 60))
    refused(read(tmp_path, not_before=time.time()), "older than the attempt")


def test_the_output_folder_itself_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "r.json").write_text(json.dumps(good()))
    (tmp_path / "link").symlink_to("real")
    refused(read(tmp_path / "link"), "can't be read")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\0"])
def test_a_name_that_is_a_path_is_our_own_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="one path component"):
        read_result(tmp_path, name, not_before=0, expected_version="2")


# The JSON

RAW = json.dumps(good())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{broken", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (RAW.replace('"status"', '"status": "failure", "status"', 1).encode(), "'status' occurs"),
        (RAW.replace('"line": 17', '"line": NaN').encode(), "NaN is not JSON"),
        (RAW.replace('"line": 17', '"line": -Infinity').encode(), "not JSON"),
        (RAW.replace('"line": 17', '"line": 1e999').encode(), "too large"),
        (RAW.replace('"line": 17', f'"line": {10**30}').encode(), "beyond 64 bits"),
        (RAW.replace('"line": 17', '"line": ' + "9" * 100_000).encode(), "beyond 64 bits"),
        (b"[" * 200_000, "nested deeper"),
        (b'{"a":' * 60 + b"1" + b"}" * 60, "nested deeper"),
        (b"\xef\xbb\xbf" + RAW.encode(), "byte order mark"),
        (RAW.encode("utf-16"), "not valid"),
        (b'{"summary": "\xff"}', "not valid UTF-8"),
        (RAW.replace("Reviewed", "\\u0000").encode(), "NUL"),
        (RAW.encode() + b"\0", "not valid JSON"),
        (RAW.replace("Reviewed", "\\ud800").encode(), "surrogate"),
        (RAW.encode() + b" trailing", "not valid JSON"),
        (RAW.encode() * 2, "not valid JSON"),
    ],
)
def test_ambiguous_json_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    start = time.monotonic()
    refused(read(tmp_path, content), words)
    assert time.monotonic() - start < 1


def test_brackets_inside_strings_are_not_depth(tmp_path: Path) -> None:
    document = changed(summary='\\"' + "[" * 1000 + '"{{')
    assert read(tmp_path, json.dumps(document).encode()).problem is None


@settings(deadline=None, max_examples=100)
@given(raw=st.binary(max_size=300))
def test_reading_never_raises_whatever_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    reading = read(tmp_path_factory.mktemp("out"), raw)
    assert reading.result is None
    assert (reading.problem or "").isprintable()


# The rules


@pytest.mark.parametrize("version", ["3", "2.0", 2, None, ["2"]])
def test_a_version_other_than_the_briefs_is_refused(version: object) -> None:
    refused(check(changed(contract_version=version)), "contract_version must be '2'")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "done"}, "status"),
        ({"exit_reason": "infra_error"}, "exit_reason must be null when status is success"),
        ({"status": "failure"}, "exit_reason must be given when status is failure"),
        ({"status": "needs_input"}, "exit_reason must be given when status is needs_input"),
        ({"status": "failure", "exit_reason": "tired"}, "exit_reason"),
        ({"review__evidence_status": "not_applicable"}, "must not be not_applicable"),
        ({"review__reviewed_files": []}, "reviewed_files must name a file"),
        ({"review__mode": "none"}, "must be not_applicable when mode is none"),
        ({"review__mode": "audit"}, "review.mode"),
        ({"review__findings__0__line": -1}, "review.findings.0"),
        ({"review__findings__0__line": True}, "review.findings.0.line"),
        ({"review__findings__0__line": "17"}, "review.findings.0.line"),
        ({"review__findings__0__line": 1.5}, "review.findings.0.line"),
        ({"review__findings__0__severity": "HIGH"}, "review.findings.0.severity"),
        ({"review__findings__0__file": ""}, "review.findings.0.file"),
        ({"review__findings__0": "x"}, "review.findings.0"),
        ({"review__tests_run__0__status": "ok"}, "review.tests_run.0.status"),
        ({"review": None}, "review"),
        ({"commits": [{"sha": "xyz", "message": ""}]}, "commits.0.sha"),
        ({"commits": {}}, "commits"),
        ({"summary": None}, "summary"),
        ({"files_changed": [1]}, "files_changed.0"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_the_field(
    changes: dict[str, Any], words: str
) -> None:
    refused(check(changed(**changes)), words)


@pytest.mark.parametrize(
    "branch",
    ["--upload-pack=touch x", "../x", "refs/heads/x", "cody/x.lock", "a b", "x" * 300, "a..b",
     "/x", "x/", "a//b", "a~1", "a:b", "a\\b", "a@{1}", "@", "", ".x", "a/.b", "x.", "a\u202eb",
     "a\nb", "x\n"],
)  # fmt: skip
def test_a_dangerous_branch_name_is_refused(branch: str) -> None:
    refused(check(changed(branch=branch), default_branch="main"), "branch")


@pytest.mark.parametrize("branch", ["cody/fix-42-0a1b2c3d", "ünïcode", "v1.2", "a.b/c"])
def test_an_ordinary_branch_name_is_kept(branch: str) -> None:
    reading = check(changed(branch=branch), default_branch="main")
    assert reading.result is not None
    assert reading.result.branch == branch
    assert reading.tolerated == []


def test_partial_may_have_no_reason_and_missing_evidence_no_files() -> None:
    document = changed(
        status="partial", review__evidence_status="missing", review__reviewed_files=[]
    )
    assert check(document).problem is None


def test_no_problem_text_repeats_what_the_runtime_wrote() -> None:
    reading = check(changed(status=TOKEN, exit_reason=TOKEN, branch=f"../{TOKEN}"))
    assert TOKEN not in str(reading)
    reading = check({**good(), TOKEN: 1, "review": {TOKEN: 2}})
    assert TOKEN not in str(reading)
    assert "unknown key (odd name)" in reading.tolerated


# The dialect


def test_the_real_runtimes_review_is_accepted_and_each_deviation_listed() -> None:
    raw = json.loads((FIXTURES / "real-review.json").read_text())
    before = copy.deepcopy(raw)
    reading = check(raw, default_branch="main", review=True)
    assert raw == before
    assert reading.problem is None
    assert reading.result is not None
    assert reading.result.branch is None
    assert reading.result.commits == ()
    assert reading.result.review.findings[0].line is None
    assert reading.tolerated == [
        "branch was HEAD; read as null",
        "commits were listed on a review; left out",
        "unknown key review.memory",
        "review.findings[].line was 0; read as null",
    ]


def test_the_real_runtimes_failed_fix_is_accepted() -> None:
    raw = json.loads((FIXTURES / "real-fix-turn-limit.json").read_text())
    reading = check(raw, default_branch="main")
    assert reading.result is not None
    assert reading.tolerated == ["unknown key review.memory"]


def test_the_default_branch_is_read_as_no_branch() -> None:
    reading = check(changed(branch="trunk"), default_branch="trunk")
    assert reading.result is not None
    assert reading.result.branch is None
    assert reading.tolerated == ["branch was the default branch; read as null"]


def test_a_clean_review_without_a_reason_becomes_partial_evidence() -> None:
    for reason in (None, "  "):
        document = changed(review__findings=[], review__no_findings_reason=reason)
        reading = check(document, review=True)
        assert reading.result is not None
        assert reading.result.review.evidence_status == "partial"
        assert len(reading.tolerated) == 1


def test_nullable_fields_may_be_left_out() -> None:
    document = good()
    del document["branch"], document["exit_reason"], document["review"]["no_findings_reason"]
    del document["review"]["findings"][0]["line"]
    reading = check(document)
    assert reading.result is not None
    assert len(reading.tolerated) == 4


def test_a_broken_memory_entry_fails_alone() -> None:
    document = changed(memory_used__read=[{"id": "repo/a/b/c/d", "scope": "galaxy"}, 3])
    reading = check(document)
    assert reading.result is not None
    assert reading.result.memory_used is not None
    assert reading.result.memory_used.read == ()
    assert len(reading.result.memory_used.proposed) == 1
    assert [note.split(":")[0] for note in reading.tolerated] == ["memory_used.read[] refused"] * 2


@pytest.mark.parametrize("memory", [[], "x", {"enabled": "yes"}, {"read": 1}, {}])
def test_a_broken_memory_report_does_not_cost_the_review(memory: object) -> None:
    reading = check(changed(memory_used=memory))
    assert reading.result is not None
    assert reading.result.memory_used is None
    assert reading.tolerated


def test_the_list_of_deviations_is_bounded() -> None:
    names = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(5000)]
    document = {**good(), **dict.fromkeys((f"key-{name}" for name in names), 1)}
    assert len(check(document).tolerated) == MAX_LISTED + 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["none", "complete", "2", "HEAD", "success"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["review", "findings", "line", "branch", "commits", "memory_used", "read", "sha",
             "evidence_status", "no_findings_reason", "tests_run", "proposed", "contract_version"]
        ) | st.text(max_size=5),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(deadline=None, max_examples=250)
@given(document=st.dictionaries(st.sampled_from(list(good())), JSON_VALUES), review=st.booleans())
def test_the_normaliser_never_raises_and_is_stable(document: dict[str, Any], review: bool) -> None:
    once, _ = normalise(document, default_branch="main", review=review)
    twice, tolerated = normalise(once, default_branch="main", review=review)
    assert json.dumps(twice, sort_keys=True) == json.dumps(once, sort_keys=True)
    assert not tolerated
    reading = validate(document, expected_version="2", default_branch="main", review=review)
    assert (reading.result is None) != (reading.problem is None)


# Cleaning


def test_free_text_is_masked_everywhere() -> None:
    document = changed(
        summary=f"s {TOKEN}",
        pr_body=TOKEN,
        review__findings__0__body=f"key {TOKEN}",
        review__tests_run__0__command=f"curl -H 'Authorization: Bearer {TOKEN}'",
        review__limitations=[TOKEN],
        memory_used__proposed__0__summary=TOKEN,
        commits=[{"sha": "a" * 40, "message": TOKEN}],
    )
    cleaned = clean(Result.model_validate_json(json.dumps(document)), Redactor())
    assert TOKEN not in cleaned.model_dump_json()
    assert cleaned.summary == "s [redacted]"
    assert cleaned.commits[0].sha == "a" * 40


def test_cleaning_an_innocent_result_changes_nothing() -> None:
    assert clean(examples.result(), Redactor()) == examples.result()


@pytest.mark.parametrize("path", ["memory_used__read__0__id", "memory_used__proposed__0__key"])
def test_a_secret_in_a_memory_key_is_masked_whole_and_costs_no_review(path: str) -> None:
    document = changed(**{path: f"repo/acme-inc/billing/notes/{TOKEN}"})
    cleaned = clean(Result.model_validate_json(json.dumps(document)), Redactor())
    assert cleaned.memory_used is not None
    keys = [each.id for each in cleaned.memory_used.read]
    keys += [each.key for each in cleaned.memory_used.proposed]
    assert keys.count("[redacted]") == 1
    assert TOKEN not in cleaned.model_dump_json()


def test_a_summary_that_grows_under_its_masks_is_still_a_result() -> None:
    summary = ("eightchr " * 7_281)[:65_536]
    document = changed(memory_used__proposed__0__summary=summary)
    redactor = Redactor(["eightchr"])
    cleaned = clean(Result.model_validate_json(json.dumps(document)), redactor)
    assert cleaned.memory_used is not None
    assert cleaned.memory_used.proposed[0].summary == "[redacted]"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("branch", "branch"),
        ("files_changed", "files_changed"),
        ("review__reviewed_files", "review.reviewed_files"),
        ("review__supporting_files", "review.supporting_files"),
        ("review__findings__0__file", "review.findings"),
    ],
)
def test_a_secret_in_a_structural_field_fails_instead_of_being_rewritten(
    path: str, name: str
) -> None:
    text = f"cody/{TOKEN}"
    document = changed(**{path: [text] if path.endswith(("files", "changed")) else text})
    with pytest.raises(SecretFound, match=name) as caught:
        clean(Result.model_validate_json(json.dumps(document)), Redactor())
    assert TOKEN not in str(caught.value)
