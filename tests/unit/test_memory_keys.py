"""Memory keys and prefixes: the committed corpus, and what holds for any text."""

from __future__ import annotations

import json
import string
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.memory.keys import MAX_CHARS, KeyPrefix, MemoryKey
from coven.memory.pii import personal_data

CORPUS = Path(__file__).parents[1] / "fixtures" / "memory"


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["rule"]) for case in json.loads((CORPUS / name).read_text())]


@pytest.mark.parametrize("case", cases("keys.json"))
def test_a_key_has_one_spelling_or_is_refused(case: dict[str, Any]) -> None:
    if case["spelled"] is None:
        with pytest.raises(ValueError, match="memory key"):
            MemoryKey.parse(case["text"])
    else:
        assert str(MemoryKey.parse(case["text"])) == case["spelled"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("repo/o/r//k", "empty segment"),
        ("repo/o/r/ns/a b", "'a b' is not"),
        ("repo/o/r/ns/..", "ends with a dot"),
        ("repo/o/r/k", "a namespace and a key"),
        ("tenant/x/ns/k", "tenant/<installation id>"),
        ("k", "begins with repo/<owner>/<name>/"),
        ("repo/o/r/k/" + "k" * 199, "at most 200 characters below its owner, this one 201"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MemoryKey.parse(text)


@pytest.mark.parametrize("case", cases("prefixes.json"))
def test_a_prefix_covers_by_whole_segments(case: dict[str, Any]) -> None:
    key = MemoryKey.parse(case["key"])
    if case["covers"] is None:
        with pytest.raises(ValueError, match="memory key"):
            KeyPrefix.parse(case["prefix"])
    else:
        assert KeyPrefix.parse(case["prefix"]).covers(key) is case["covers"]


@pytest.mark.parametrize("case", cases("personal.json"))
def test_personal_data_is_told_from_numbers_of_programs(case: dict[str, Any]) -> None:
    assert personal_data(case["text"]) == case["kind"]


def test_the_search_for_personal_data_is_linear() -> None:
    for text in ("1-" * 100_000, "a@" * 100_000, "DE89 " * 50_000, "+1 " * 70_000, "a." * 100_000):
        assert personal_data(text) is None


_segments = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=12)
_owners = st.from_regex(r"[A-Za-z0-9]{1,12}", fullmatch=True)
_keys = st.builds(
    lambda owner, name, rest: "/".join(("repo", owner, name, *rest)),
    _owners,
    _segments,
    st.lists(_segments, min_size=2, max_size=4),
)


@settings(deadline=None, max_examples=80)
@given(_keys)
def test_what_is_parsed_is_spelled_and_parsed_again_as_the_same(text: str) -> None:
    key = MemoryKey.parse(text)
    assert MemoryKey.parse(str(key)) == key
    assert KeyPrefix.parse(str(key)).covers(key)


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.text(max_size=60), st.text(max_size=40).map(lambda t: f"repo/o/r/n/{t}")))
def test_no_accepted_key_holds_anything_but_plain_characters(text: str) -> None:
    try:
        key = MemoryKey.parse(text)
    except ValueError:
        return
    assert text.isascii()
    assert text.isprintable()
    assert unicodedata.is_normalized("NFC", text)
    assert len("/".join((key.namespace, *key.path))) <= MAX_CHARS
    assert not set(text) & set(" %\\*?#<>|`\"'[]")
    assert not {"", ".", ".."} & set(text.split("/"))
    assert str(key).casefold() == text.casefold()


@settings(deadline=None, max_examples=80)
@given(_keys, _segments)
def test_a_longer_last_segment_is_never_covered(text: str, more: str) -> None:
    assert not KeyPrefix.parse(text).covers(MemoryKey.parse(text + more))


@settings(deadline=None, max_examples=80)
@given(_owners, _segments, _segments)
def test_no_repository_covers_one_that_begins_like_it(owner: str, name: str, more: str) -> None:
    prefix = KeyPrefix.parse(f"repo/{owner}/{name}")
    assert prefix.covers(MemoryKey.parse(f"repo/{owner.upper()}/{name.lower()}/n/k"))
    assert not prefix.covers(MemoryKey.parse(f"repo/{owner}/{name}{more}/n/k"))
