"""What goes into a column: times are aware, texts are storable on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from coven.store.surfaces import content_hash
from coven.store.tables import CleanJson, UtcDateTime, clean_text

DIALECTS = [sqlite.dialect(), postgresql.dialect()]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_naive_times_are_refused(dialect: Any) -> None:
    with pytest.raises(ValueError, match="naive"):
        UtcDateTime().process_bind_param(datetime(2026, 1, 1), dialect)  # noqa: DTZ001


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
@settings(deadline=None, max_examples=50)
@given(
    when=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    offset=st.integers(-14 * 60, 14 * 60),
)
def test_times_come_back_as_the_same_moment_in_utc(
    dialect: Any, when: datetime, offset: int
) -> None:
    moment = when.replace(tzinfo=timezone(timedelta(minutes=offset)))
    column = UtcDateTime()
    stored = column.process_bind_param(moment, dialect)
    back = column.process_result_value(stored, dialect)
    assert back == moment
    assert back is not None
    assert back.tzinfo is UTC


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_becomes_storable_and_storable_text_stays(text: str) -> None:
    clean = clean_text(text)
    assert len(clean) == len(text)
    assert "\x00" not in clean
    assert clean.encode().decode() == clean
    assert clean_text(clean) == clean
    unharmed = [(a, b) for a, b in zip(text, clean, strict=True) if a != b]
    assert all(a == "\x00" or "\ud800" <= a <= "\udfff" for a, _ in unharmed)


def test_json_is_cleaned_at_every_depth_keys_too() -> None:
    dirty = {"k\x00": ["a\ud800", {"n": float("nan"), "i": float("inf"), "ok": 1.5}], "t": (1,)}
    assert CleanJson().process_bind_param(dirty, DIALECTS[0]) == {
        "k\ufffd": ["a\ufffd", {"n": None, "i": None, "ok": 1.5}],
        "t": [1],
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(JSON)
def test_cleaned_json_is_strict_json(value: Any) -> None:
    clean = CleanJson().process_bind_param(value, DIALECTS[0])
    assert json.loads(json.dumps(clean, allow_nan=False)) == clean


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_the_hash_of_content_does_not_depend_on_the_order(content: dict[str, Any]) -> None:
    backwards = dict(reversed(content.items()))
    assert content_hash(content) == content_hash(backwards)
    assert content_hash(content) != content_hash(content | {"one more": 1})
