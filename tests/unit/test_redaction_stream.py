from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.redaction import MASK, Redactor
from coven.redaction.stream import HOLD

LIVE = "correct-horse-battery-staple-7"
REDACTOR = Redactor([LIVE])
TOKEN = "ghs_" + "a1B2c3D4e5" * 5
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIEowIBAAKCAQEA7bq5w2vN5T9uQ0k4m0x3bbbbbb\n" * 20
    + "-----END RSA PRIVATE KEY-----\n"
)


def through(data: bytes, *sizes: int) -> bytes:
    stream = REDACTOR.stream()
    out, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out.append(stream.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    return b"".join([*out, stream.close()])


@settings(deadline=None, max_examples=60)
@given(
    pieces=st.lists(
        st.sampled_from([TOKEN, LIVE, PEM, "password=hunter22\n", "\n", " ", "é", "word "])
        | st.text(max_size=20),
        max_size=12,
    ),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
)
def test_any_chunking_equals_the_whole_text(pieces: list[str], sizes: list[int]) -> None:
    data = "".join(pieces).encode("utf-8", "replace")
    assert through(data, *sizes) == REDACTOR.text(data.decode()).encode()


LINE = "a line of ordinary output, number 12345\n"


@pytest.mark.parametrize("secret", [TOKEN, LIVE, PEM, f"https://u:{LIVE}@h/x"])
@pytest.mark.parametrize("shift", [0, 7, 23])
def test_long_output_equals_the_whole_text_wherever_the_secret_falls(
    secret: str, shift: int
) -> None:
    before = LINE * (HOLD // len(LINE)) + "x" * shift
    text = (before + f" {secret} \n") * 4
    data = text.encode()
    expected = REDACTOR.text(text).encode()
    for sizes in ((8192,), (1_000_000,), (4096, 1, 70_000)):
        assert through(data, *sizes) == expected


def test_a_secret_in_one_endless_line_is_masked() -> None:
    text = ("x" * 50_000 + f" {TOKEN} ") * 8 + "y" * 500_000
    out = through(text.encode(), 8192).decode()
    assert TOKEN not in out
    assert out.count(MASK) == 8
    assert out.replace(MASK, TOKEN) == text


def test_a_key_longer_than_the_buffer_is_swallowed_to_its_end() -> None:
    body = "MIIEowIBAAKCAQEA7bq5w2vN5T9uQ0k4m0x3bbbbbb\n" * 10_000
    text = f"start\n-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\nafter {TOKEN}\n"
    out = through(text.encode(), 8192).decode()
    assert out == f"start\n{MASK}\nafter {MASK}\n"


def test_an_endless_token_is_swallowed_to_the_next_space() -> None:
    text = "start ghs_" + "aB3" * 200_000 + " after\n"
    assert through(text.encode(), 8192).decode() == f"start {MASK} after\n"


def test_invalid_utf8_and_cut_characters_do_not_stop_it() -> None:
    assert through(b"\xff\xfe " + "é€😀".encode() + b"\xc3", 1).decode() == "�� é€😀�"


def test_memory_stays_bounded_whatever_is_printed() -> None:
    stream = REDACTOR.stream()
    chunk = b"z" * 65_536
    tracemalloc.start()
    for _ in range(40):
        stream.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000
    stream.close()
