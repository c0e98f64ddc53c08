"""Canonical forms are stable, equal things have equal ones, and a prefix never covers a sibling."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from urllib3.util import parse_url

from coven.governance.actions import MalformedAction, NetworkRequest
from coven.governance.globs import path_glob, wildcard
from coven.governance.hosts import (
    HostRefused,
    HostSet,
    canonical_host,
    is_private,
    url_path_candidates,
)
from coven.governance.paths import PathUnclear, lexical, places, text_of
from coven.governance.strict_json import JsonRefused, canonical, loads

SEGMENT = st.text("ab.*[~ é\n", min_size=1, max_size=4).filter(lambda s: s not in (".", ".."))
SEGMENTS = st.lists(SEGMENT, max_size=5).map(tuple)
NOISE = st.lists(st.sampled_from(["", ".", "x/.."]), max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def unlinked(path: str) -> str:
    return path


# Paths


@given(st.text(max_size=40))
def test_a_folded_path_is_folded(path: str) -> None:
    once = lexical("/" + path)
    assert lexical(text_of(once)) == once
    assert text_of(once) == os.path.normpath("///" + path)


@given(SEGMENTS, st.data())
def test_detours_lead_to_the_same_place(segments: tuple[str, ...], data: st.DataObject) -> None:
    parts: list[str] = []
    for segment in segments:
        parts += [*data.draw(NOISE), segment]
    detour = "/" + "/".join([*parts, *data.draw(NOISE)])
    assert places(detour, None, unlinked) == places(text_of(segments), None, unlinked)


@given(SEGMENTS, SEGMENTS)
def test_relative_and_absolute_spellings_agree(
    base: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    assume(rest)
    found = places("/".join(rest), text_of(base), unlinked)
    assert found == places(text_of((*base, *rest)), None, unlinked)


@given(st.text(max_size=60))
@example("/proc/self/root/proc/self/root")
@example("/proc/self/cwd/../x")
@example("/dev/null")
def test_a_place_is_its_own_place(path: str) -> None:
    try:
        found = places(path, "/base", unlinked)
    except PathUnclear:
        return
    for place in found.inside:
        assert place in places(text_of(place), None, unlinked).any


@given(SEGMENTS, SEGMENTS, st.text("ab~.", min_size=1, max_size=3))
def test_a_prefix_never_covers_a_sibling(
    folder: tuple[str, ...], below: tuple[str, ...], suffix: str
) -> None:
    assume(folder and not set("".join(folder)) & set("*?["))
    glob = path_glob(text_of(folder) + "/**")
    sibling = (*folder[:-1], folder[-1] + suffix, *below)
    assert glob.matches((*folder, *below))
    assert not glob.matches(sibling)
    assert not glob.matches(folder[:-1])


@given(SEGMENTS)
def test_a_literal_glob_means_itself_alone(segments: tuple[str, ...]) -> None:
    assume(segments and not set("".join(segments)) & set("*?["))
    glob = path_glob(text_of(segments))
    assert glob.matches(segments)
    assert not glob.matches((*segments, "x"))


def test_links_are_asked_anew_every_time(tmp_path: Path) -> None:
    """Between a check and a write a link may change, so no answer is kept.

    Whoever writes must open without following links; what is judged is where the path leads now.
    """
    tmp_path = tmp_path.resolve()
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    glob = path_glob(f"{tmp_path}/bad/**")
    for target, caught in (("good", False), ("bad", True), ("good", False)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        found = places(f"{link}/x", None, os.path.realpath)
        assert any(glob.matches(place) for place in found.any) is caught


@pytest.mark.parametrize("star", ["*", "**/"])
def test_globs_take_no_time(star: str) -> None:
    """A pattern that a backtracking matcher would never finish."""
    if star == "*":
        assert not wildcard("*a" * 200 + "b").matches("a" * 4000)
    else:
        assert not path_glob("/" + "**/a/" * 200 + "b").matches(("a",) * 2000)


# Hosts

LABELS = st.lists(st.text("abzÄßé\u0130-_09", min_size=1, max_size=6), min_size=1, max_size=4).map(
    ".".join
)


@given(LABELS | st.text(max_size=30))
@example("EVIL.example.com.")
@example("0x7f.1")
@example("[::FFFF:7f00:1]")
@example("xn--bcher-kva.example")
@example("\u0130.com")
def test_a_canonical_host_is_canonical(host: str) -> None:
    try:
        once = canonical_host(host)
    except HostRefused:
        return
    assert canonical_host(once) == once
    assert canonical_host(once.upper()) == once
    if ":" not in once:
        assert once.isascii()
        assert canonical_host(once + ".") == once


@given(st.integers(0, 2**32 - 1), st.data())
def test_every_spelling_of_an_address_is_that_address(value: int, data: st.DataObject) -> None:
    octets = value.to_bytes(4, "big")
    count = data.draw(st.integers(1, 4))
    numbers = [*octets[: count - 1], int.from_bytes(octets[count - 1 :], "big")]
    forms = [data.draw(st.sampled_from([str, hex, lambda n: f"0{n:o}"]))(n) for n in numbers]
    address = str(ipaddress.IPv4Address(value))
    assert canonical_host(".".join(forms)) == address
    assert canonical_host(f"[::ffff:{address}]") == address
    assert is_private(f"64:ff9b::{address}") == is_private(address)


@given(st.ip_addresses(v=6))
def test_every_spelling_of_a_long_address_is_that_address(address: ipaddress.IPv6Address) -> None:
    once = canonical_host(str(address))
    assert canonical_host(f"[{address.exploded.upper()}%eth0]") == once


@given(st.text("abc", min_size=1, max_size=3), st.text("abc.", min_size=1, max_size=6))
def test_a_pattern_never_covers_the_name_itself_or_its_likes(name: str, below: str) -> None:
    pattern = HostSet.read([f"*.{name}.com"])
    assert not pattern.has(f"{name}.com")
    assert not pattern.has(f"x{name}.com")
    assert not pattern.has(f"{name}.com.evil")
    assert pattern.has(f"x.{name}.com")


URL_TEXT = st.text("ab.:/?#@[]\\%1-é \t", max_size=16)


@given(st.builds("{}://{}/{}".format, st.sampled_from(["http", "https"]), URL_TEXT, URL_TEXT))
@example("https://evil.com\\@api.github.com/")
@example("https://a.com#@b.com/")
@example("https://a.com?@b.com/")
def test_what_is_judged_is_what_every_reader_dials(url: str) -> None:
    try:
        judged = NetworkRequest.of("GET", url)
        host = canonical_host(judged.host)
    except (MalformedAction, HostRefused):
        return
    theirs = {
        canonical_host(parse_url(url).host or ""),
        canonical_host(urlsplit(url).hostname or ""),
    }
    assert theirs == {host}


@given(st.lists(st.text("abz.%", min_size=1, max_size=4), max_size=4))
def test_an_escaped_path_is_seen_through(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    for spelling in (quote(path, safe=""), quote(quote(path, safe=""), safe="")):
        assert path.lower() in url_path_candidates(spelling)


# JSON


@given(JSON)
def test_canonical_json_is_canonical(value: object) -> None:
    once = canonical(value)  # type: ignore[arg-type]
    assert canonical(loads(once)) == once


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, int], random: object) -> None:
    items = list(value.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical(dict(items)) == canonical(value)


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_what_is_read_can_be_written(text: bytes | str) -> None:
    try:
        value = loads(text)
    except JsonRefused:
        return
    assert loads(canonical(value)) == value
