"""Bytes to payload: nothing but ``BadBody``, whatever comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from webhooks.body import BadBody, decode
from webhooks.payloads import BadPayload, clean, facts_of, read

REASONS = {
    "bad_json",
    "bad_form",
    "bad_encoding",
    "no_payload_field",
    "not_an_object",
    "not_finite",
    "duplicate_key",
    "too_deep",
}
KEYS = [
    "action",
    "id",
    "installation",
    "repository",
    "sender",
    "pull_request",
    "number",
    "head",
    "sha",
    "comment",
    "issue",
    "body",
    "user",
    "full_name",
    "label",
    "x",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)


@given(st.binary(max_size=200), st.sampled_from([None, "application/x-www-form-urlencoded"]))
@given_settings(deadline=None, max_examples=150)
def test_any_bytes_are_an_object_or_refused(raw: bytes, media_type: str | None) -> None:
    try:
        assert isinstance(decode(raw, media_type), dict)
    except BadBody as error:
        reason = error.reason
    else:
        return
    assert reason in REASONS


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=6))
@given_settings(deadline=None, max_examples=100)
def test_objects_come_through_unchanged(value: dict[str, object]) -> None:
    assert decode(json.dumps(value).encode(), "application/json") == value


@given(JSON.filter(lambda value: isinstance(value, dict)))
@given_settings(deadline=None, max_examples=300)
def test_any_object_is_read_or_refused_by_field(body: dict[str, object]) -> None:
    facts = facts_of(body)
    assert facts.installation_id is None or facts.installation_id > 0
    reason = "bad_field:none"
    try:
        read(body)
    except BadPayload as error:
        reason = error.reason
    assert reason.startswith(("bad_field:", "missing_field:"))


@pytest.mark.parametrize("raw", [b'{"a":{"b":1,"b":1}}', b'{"\\u0061":1,"a":2}'])
def test_duplicate_keys_are_found_at_any_depth(raw: bytes) -> None:
    with pytest.raises(BadBody, match="duplicate_key"):
        decode(raw, None)


@given(st.text(max_size=50), st.integers(0, 40))
@given_settings(deadline=None, max_examples=50)
def test_clean_text_can_be_stored(text: str, limit: int) -> None:
    stored = clean(text + "\x00\ud800", limit)
    assert "\x00" not in stored
    assert len(stored) <= limit
    stored.encode()
