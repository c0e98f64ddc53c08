"""The ring keeps the end of a stream, masked before it is cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coven.redaction import MASK, Redactor
from worker.runtime.output import MARGIN, Ring

SECRET = "live-secret-value-0123456789"


def _ring(size: int, *chunks: bytes) -> Ring:
    ring = Ring(size)
    for chunk in chunks:
        ring.add(chunk)
    return ring


def test_a_short_stream_is_kept_whole() -> None:
    assert _ring(100, b"one\n", b"two\n").tail(Redactor()) == "one\ntwo\n"


def test_only_the_end_of_a_long_stream_is_kept() -> None:
    ring = _ring(10, *(b"%05d\n" % number for number in range(50_000)))
    assert ring.tail(Redactor()) == "9998\n49999\n"[-10:]
    assert ring.total == 300_000


def test_a_secret_cut_by_the_tail_is_masked_whole() -> None:
    for offset in range(len(SECRET) + 2):
        ring = _ring(50, SECRET.encode(), b"." * (50 - offset))
        assert not any(SECRET[i : i + 6] in ring.tail(Redactor([SECRET])) for i in range(10))


def test_a_secret_cut_by_the_ring_is_dropped() -> None:
    for offset in range(len(SECRET)):
        ring = _ring(64, b"x" * 1000, SECRET.encode(), b"." * (64 + MARGIN - offset))
        assert SECRET[-5:] not in ring.tail(Redactor([SECRET]))


def test_a_secret_in_the_tail_is_masked() -> None:
    text = _ring(1000, b"token: " + SECRET.encode()).tail(Redactor([SECRET]))
    assert text == f"token: {MASK}"


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(1, 200))
def test_any_bytes_become_text_of_at_most_the_size(chunks: list[bytes], size: int) -> None:
    text = _ring(size, *chunks).tail(Redactor())
    assert len(text.encode()) <= size
    assert "\x00" not in text


def test_memory_stays_bounded() -> None:
    ring = Ring(64 * 1024)
    for _ in range(200):
        ring.add(b"x" * 262_144)
        assert len(ring._data) <= 3 * (64 * 1024 + MARGIN)
