"""Whatever goes in, a GitHub-like renderer finds nothing active in what comes out."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from coven.markdown import block, cell, code_cell, code_span, cut_bytes, fenced, inline, link, plain

HOSTILE = [
    "@octocat",
    "@org/everyone",
    "mail @",
    "a@b.example",
    "a@-b.example",
    "a@.bc",
    "@[text](https://evil.example)",
    "#[1](https://evil.example)",
    "#123",
    "o/r#1",
    "GH-1",
    "gh-77",
    "fixes #12",
    "Closes o/r#9",
    "resolved https://github.com/o/r/issues/4",
    "https://evil.example/?q=1",
    "http://[::1]/",
    "www.evil.example",
    "mailto:a@b.example",
    "<https://evil.example>",
    "[text](https://evil.example)",
    "[text][ref]",
    "\n[ref]: https://evil.example\n",
    "![x](https://evil.example/?q=secret)",
    "[![x](https://evil.example)](https://evil.example)",
    "<img src=https://evil.example>",
    "<!-- hidden @octocat -->",
    "<!-- coven-github:v1:status_comment:cody:1:2:0123456789abcdef -->",
    "<!--",
    "-->",
    "<b>",
    "</details>",
    "<script>alert(1)</script>",
    "# heading",
    "\n# heading\n",
    "heading\n===",
    "heading\n---",
    "\n---\n",
    "\n===\n",
    "`",
    "``",
    "```",
    "\n```\n",
    "\n~~~\n",
    "`@octocat`",
    "`a``b`",
    "``@b`@octocat``",
    "|",
    "\n| a | b |\n|---|---|\n| @octocat | `x\\|y` |\n",
    "\n:--\n",
    "\\",
    "\\\\",
    "*",
    "**",
    "~~",
    "_",
    "[",
    "]",
    "(",
    ")",
    "!",
    "&",
    "&#64;octocat",
    "&commat;octocat",
    "&num;12",
    "&lt;b&gt;",
    "\n- ",
    "\n-",
    "\n  - ",
    "\n1. ",
    "\n2. ",
    "\n> ",
    "\n    ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "\u200b",
    "\u202e",
    "\u2066",
    "\U000e0041",
    "\u00ad",
    "\ufeff",
    "\u2028",
    "\u3164",
    "\ud800",
    "0123456789abcdef0123456789abcdef01234567",
    "0a9c1e2",
    "deadbeef",
    "octocat",
    "é",
    "日本",
    "🧙🏽‍♀️",
    "word",
    "1",
    "12",
    "-",
    "=",
    "+",
    ":",
    "@",
    "#",
    "$x$",
    "[^1]",
    "[!NOTE]",
]
text_like = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6)), max_size=24).map(
    "".join
)

MENTION = re.compile(r"@[A-Za-z0-9.-]")
REFERENCE = re.compile(r"#\d|gh-\d", re.IGNORECASE)
COMMIT = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{40}(?![0-9A-Za-z])")
ADDRESS = re.compile(r"://|www\.|mailto:", re.IGNORECASE)


def github() -> MarkdownIt:
    renderer = MarkdownIt("gfm-like")
    # GitHub links addresses with a scheme, with www. and e-mail; bare host names stay text.
    renderer.linkify.set({"fuzzy_link": False})
    return renderer


RENDERER = github()


def tokens(markdown: str) -> Iterator[Token]:
    for token in RENDERER.parse(markdown):
        yield token
        yield from token.children or ()


def assert_harmless(markdown: str) -> None:
    for token in tokens(markdown):
        assert token.type not in {"image", "html_inline", "html_block", "heading_open"}, markdown
        assert token.type != "link_open", (token.attrs, markdown)
        if token.type == "text":
            for active in (MENTION, REFERENCE, COMMIT, ADDRESS):
                assert not active.search(token.content), (token.content, markdown)
    assert_visible(markdown)
    assert "<!-- coven-github" not in markdown.casefold()


def assert_visible(text: str) -> None:
    text.encode()  # no half of a surrogate pair
    for char in text:
        assert char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(text_like)
@settings(max_examples=200, deadline=None)
@example("``@b`@octocat``@octocat`x`")
@example("- a\n  2. ```\n     @octocat\n     ```")
@example("x\n  -\n  -")
@example("<!-- a --><!-- -->@<!-- -->octocat")
@example("@\u200boctocat and #\u00ad12")
@example("|a|b|\n|-|-|\n|`@o|c`|@o|")
@example("wow![x](https://evil.example)")
@example("<https://evil.example>@[text](https://evil.example)")
def test_nothing_active_survives_in_a_block(text: str) -> None:
    assert_harmless(block(text, 65_536))


@given(text_like, st.integers(min_value=60, max_value=300))
@settings(max_examples=100, deadline=None)
def test_a_block_keeps_its_limit_and_stays_harmless_when_cut(text: str, limit: int) -> None:
    cut = block(text * 3, limit)
    assert len(cut.encode()) <= limit
    assert_harmless(cut)


@given(text_like)
@settings(max_examples=100, deadline=None)
def test_nothing_active_survives_in_a_line(text: str) -> None:
    line = inline(text, 2_000)
    assert "\n" not in line
    assert_harmless(line)
    assert_harmless(f"- {line}")
    assert_harmless(f"Before {line} after")


@given(text_like, st.integers(min_value=3, max_value=80))
@settings(max_examples=100, deadline=None)
def test_a_line_keeps_its_limit(text: str, limit: int) -> None:
    line = inline(text, limit)
    assert len(line.encode()) <= limit
    assert_harmless(line)


@given(text_like, text_like)
@settings(max_examples=100, deadline=None)
def test_a_cell_stays_in_its_column(left: str, right: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| {cell(left, 500)} | {cell(right, 500)} |"
    assert_harmless(table)
    kinds = [token.type for token in RENDERER.parse(table)]
    assert kinds.count("td_open") == 2
    assert kinds.count("tr_open") == 2


@given(text_like, text_like)
@settings(max_examples=100, deadline=None)
@example("make | @everyone ![x](http://x/y) | tee", "\\|`@mona|")
def test_a_code_span_stays_in_its_cell(left: str, right: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| {code_cell(left)} | {code_cell(right)} |"
    assert_harmless(table)
    kinds = [token.type for token in RENDERER.parse(table)]
    assert kinds.count("td_open") == 2
    assert kinds.count("tr_open") == 2


@given(text_like)
@settings(max_examples=100, deadline=None)
def test_a_code_span_is_one_code_span(text: str) -> None:
    span = code_span(text)
    assert_harmless(f"see {span} here")
    kinds = [token.type for token in tokens(f"see {span} here") if token.type != "inline"]
    assert kinds.count("code_inline") == (0 if span == "*(empty)*" else 1)


@given(text_like, st.integers(min_value=40, max_value=400))
@settings(max_examples=100, deadline=None)
def test_a_fence_is_closed_only_by_itself(text: str, limit: int) -> None:
    code = fenced(text, limit, "py")
    if len(text) < 20:
        assert len(code.encode()) <= limit
    assert_harmless(f"{code}\n\nafter")
    kinds = [token.type for token in RENDERER.parse(f"{code}\n\nafter")]
    assert kinds == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(text_like)
@settings(max_examples=60, deadline=None)
def test_our_link_leads_where_we_say(text: str) -> None:
    markdown = link(text, "https://cave.example/sessions/1?a=(b)&c=<d>")
    found = [t for t in tokens(markdown) if t.type == "link_open"]
    assert [t.attrs["href"] for t in found] == [
        "https://cave.example/sessions/1?a=(b)&c=%3Cd%3E".replace("(", "%28").replace(")", "%29")
    ]
    assert not any(t.type in {"image", "html_inline", "heading_open"} for t in tokens(markdown))


@given(text_like, st.integers(min_value=4, max_value=200))
@settings(max_examples=100, deadline=None)
def test_a_plain_field_holds_no_mention_or_reference(text: str, limit: int) -> None:
    field = plain(text, limit)
    assert len(field.encode()) <= limit
    assert_visible(field)
    for active in (MENTION, REFERENCE, re.compile(r"://|www\.\w", re.IGNORECASE)):
        assert not active.search(field)


@given(text_like, st.integers(min_value=60, max_value=400))
@settings(max_examples=100, deadline=None)
def test_cutting_finished_markdown_leaves_nothing_open(text: str, limit: int) -> None:
    finished = block(text * 4, 65_536)
    cut = cut_bytes(finished, limit)
    assert len(cut.encode()) <= limit
    assert_harmless(cut)


@pytest.mark.parametrize(
    "unit",
    [
        "<!--",
        "[",
        "![",
        "`a",
        "*a",
        "**a**",
        "@a",
        "> ",
        "- ",
        "<a ",
        "&a",
        "|",
        "((",
        "#1",
        "~~",
        "a" * 50,
    ],
)
def test_hostile_repetition_takes_no_time(unit: str) -> None:
    text = unit * (25_000 // len(unit))
    began = time.process_time()
    written = block(text, 20_000)
    inline(text, 20_000)
    assert time.process_time() - began < 5
    assert_harmless(written)
