"""GitHub's signature: the published vector, every malformed header, several secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from webhooks.signature import sign, verified

SECRET = b"It's a Secret to Everybody"
VECTOR = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_published_vector() -> None:
    assert sign(b"Hello, World!", SECRET) == VECTOR
    assert verified(b"Hello, World!", VECTOR, [SECRET])
    assert verified(b"Hello, World!", "sha256=" + VECTOR[7:].upper(), [SECRET])


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "abc",
        "sha256=",
        VECTOR[7:],
        VECTOR.replace("sha256", "sha1"),
        VECTOR.replace("sha256", "SHA256"),
        VECTOR[:-1],
        VECTOR + "0",
        VECTOR + "\n",
        " " + VECTOR,
        VECTOR[:-1] + "g",
        VECTOR[:-1] + "é",
        VECTOR[:-1] + "７",
    ],
)
def test_anything_else_is_refused(header: str | None) -> None:
    assert not verified(b"Hello, World!", header, [SECRET])


def test_every_active_secret_counts_and_no_other() -> None:
    assert verified(b"Hello, World!", VECTOR, [b"old", SECRET, b"new"])
    assert not verified(b"Hello, World!", VECTOR, [b"old", b"new"])
    assert not verified(b"Hello, World!", VECTOR, [])


def test_empty_secret_verifies_nobody() -> None:
    assert not verified(b"x", sign(b"x", b""), [b""])


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=40), st.integers(0, 199))
@given_settings(deadline=None, max_examples=50)
def test_one_changed_byte_is_noticed(body: bytes, secret: bytes, at: int) -> None:
    header = sign(body, secret)
    assert verified(body, header, [secret])
    changed = bytearray(body or b"x")
    changed[at % len(changed)] ^= 1
    assert not verified(bytes(changed), header, [secret])
