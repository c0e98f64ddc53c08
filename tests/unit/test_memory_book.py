"""The pure part of the memory book: ids, hashes, what is shown, four eyes, what is denied."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.memory.book import (
    NewEntry,
    Person,
    derived_key,
    may_decide,
    new_id,
    parse_id,
    place_of,
    shown,
    text_hash,
)
from coven.memory.denied import folded
from coven.memory.keys import KeyPrefix, MemoryKey, Owner
from coven.values import RepoName, TrustScope
from coven.visible import is_hidden
from tests.memory_book import ANN, BEN, entry

_words = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.tuples(_words, _words, _words), st.tuples(_words, _words, _words))
@settings(deadline=None)
def test_two_texts_never_share_a_hash(one: tuple[str, str, str], two: tuple[str, str, str]) -> None:
    assert (text_hash(*one) == text_hash(*two)) is (one == two)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("a/b", "repo", "x"), ("a", "repo", "/bx")),
        (("a/b", "repo", "x"), ("a/b", "tenant_shared", "x")),
        (("a/b", "repo", "x"), ("a/b", "repo", "x\u200b")),
        (("a/b", "repo", "x"), ("a/b", "repo", "x ")),
        (("a/b", "repo", "caf\u00e9"), ("a/b", "repo", "cafe\u0301")),
    ],
)
def test_what_looks_the_same_is_not_the_same_text(
    left: tuple[str, str, str], right: tuple[str, str, str]
) -> None:
    assert text_hash(*left) != text_hash(*right)


@given(_words)
@settings(deadline=None)
def test_nothing_shown_is_hidden(text: str) -> None:
    assert not [char for char in shown(text) if char != "\r" and is_hidden(char)]


def test_what_hides_is_shown_with_its_number() -> None:
    assert shown("al\u200bways\u202e") == "al\\u{200b}ways\\u{202e}"


def test_an_id_can_be_typed_and_means_one_thing() -> None:
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    for each in ids:
        assert parse_id(f" {each.lower()} ") == each
    assert parse_id("m-oil01234") == "M-01101234"
    for bad in ("M-1234567", "M-123456789", "E-12345678", "M-1234567U", "12345678", "", "M-"):
        assert parse_id(bad) is None


@pytest.mark.parametrize(
    ("by", "author", "trust", "approve", "four_eyes", "may"),
    [
        (BEN, 12, TrustScope.MAINTAINER, True, False, True),
        (BEN, 12, TrustScope.MAINTAINER, True, True, False),
        (BEN, 12, TrustScope.MAINTAINER, False, True, True),
        (ANN, 12, TrustScope.MAINTAINER, True, True, True),
        (ANN, None, TrustScope.MAINTAINER, True, True, False),
        (ANN, None, TrustScope.SCHEDULED, True, True, True),
        (Person.operator("root"), 12, TrustScope.MAINTAINER, True, True, True),
        (Person(None, "api:token:x"), 12, TrustScope.MAINTAINER, True, True, False),
        (Person(9, "operator:x"), 9, TrustScope.MAINTAINER, True, True, False),
    ],
)
def test_four_eyes(
    by: Person, author: int | None, trust: TrustScope, approve: bool, four_eyes: bool, may: bool
) -> None:
    about = entry(author_id=author, trust=trust)
    assert may_decide(about, by, approve=approve, four_eyes=four_eyes) is may


@given(_words)
@settings(deadline=None)
def test_a_derived_key_is_a_key_and_stays_the_same(text: str) -> None:
    owner = Owner(repo=RepoName("octo", "demo"))
    key = derived_key(owner, text)
    assert MemoryKey.parse(str(key)) == key
    assert derived_key(owner, f"  {text} ") == key
    assert place_of(key).startswith("notes/")


def test_a_text_of_other_words_gets_another_place() -> None:
    owner = Owner(repo=RepoName("octo", "demo"))
    keys = {str(derived_key(owner, text)) for text in ("\u4e00", "\u4e01", "x", "X!", "x" * 90)}
    assert len(keys) == 5


_prefixes = st.builds(
    KeyPrefix,
    st.sampled_from([Owner(repo=RepoName("o", "r")), Owner(installation_id=4)]),
    st.lists(st.sampled_from("abc"), max_size=4).map(tuple),
)
_keys = st.builds(
    MemoryKey,
    st.sampled_from([Owner(repo=RepoName("o", "r")), Owner(installation_id=4)]),
    st.sampled_from("abc"),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple),
)


@given(st.lists(_prefixes, max_size=30), _keys, st.integers(2, 40))
@settings(deadline=None)
def test_folding_never_opens_what_was_closed(
    prefixes: list[KeyPrefix], key: MemoryKey, most: int
) -> None:
    shorter = [KeyPrefix.parse(each) for each in folded(prefixes, most)]
    assert len(shorter) <= most
    if any(prefix.covers(key) for prefix in prefixes):
        assert any(prefix.covers(key) for prefix in shorter)
    elif len(prefixes) <= most:
        assert not any(prefix.covers(key) for prefix in shorter)


def test_folding_keeps_the_narrow_and_closes_the_fullest_place_first() -> None:
    texts = ["repo/o/r/a/1", "repo/o/r/b/1", "repo/o/r/b/2", "repo/o/r/b/3", "repo/o/r/b/3/x"]
    prefixes = [KeyPrefix.parse(each) for each in texts]
    assert folded(prefixes) == tuple(texts[:4])
    assert folded(prefixes, 3) == ("repo/o/r/a/1", "repo/o/r/b")


def test_folding_a_hundred_times_more_costs_about_a_hundred_times_more() -> None:
    def spent(count: int) -> float:
        prefixes = [KeyPrefix.parse(f"repo/o/r/n{n % 97}/k{n}") for n in range(count)]
        began = time.process_time()
        assert len(folded(prefixes, 10)) <= 10
        return time.process_time() - began

    few = min(spent(100) for _ in range(5))
    assert spent(10_000) < few * 100 * 5


def test_a_new_entry_says_where_it_comes_from() -> None:
    needed = {"repo_id", "repo", "key", "summary", "source", "trust"}
    assert needed <= set(NewEntry.__dataclass_fields__)
