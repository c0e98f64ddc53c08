"""What readable text looks like after it was made harmless, and where it is cut."""

from __future__ import annotations

import re

import pytest

from coven import github_limits
from coven.markdown import (
    CUT_NOTE,
    block,
    cell,
    code_span,
    cut_bytes,
    cut_plain,
    fenced,
    inline,
    link,
    plain,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, as they were.", "plain words, as they were."),
        ("ask @octocat (or @org/team).", "ask `@octocat` (or `@org/team`)."),
        ("fixes #12 and o/r#3", "fixes `#12` and `o/r#3`"),
        ("see https://example.org/a?b=c.", "see `https://example.org/a?b=c`."),
        ("mail a@b.example!", "mail `a@b.example`\\!"),
        ("mail a@-b.example or a@.bc", "mail `a@-b.example` or `a@.bc`"),
        ("snake_case and __init__", "snake_case and \\_\\_init\\_\\_"),
        ("**bold** <b>x</b>", "\\*\\*bold\\*\\* &lt;b>x&lt;/b>"),
        ("1. first", "1\\. first"),
        ("- item", "\\- item"),
        ("# title", "\\# title"),
        ("at 0a9c1e2f on line 20260101", "at `0a9c1e2f` on line 20260101"),
        ("  many\n lines\t here ", "many lines here"),
        ("", ""),
    ],
)
def test_a_line_reads_as_it_was_written(text: str, shown: str) -> None:
    assert inline(text, 1_000) == shown


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("# Title @x\n\ntext", "**Title `@x`**\n\ntext"),
        ("Title\n===\n\ntext", "**Title**\n\ntext"),
        ("- a\n- b\n  - c", "- a\n- b\n  - c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("> said **he**", "> said **he**"),
        ("```py\n@x = 1\n```", "```py\n@x = 1\n```"),
        ("```mermaid\nclick A\n```", "```\nclick A\n```"),
        ("```suggestion\nx\n```", "```\nx\n```"),
        ("    indented", "```\nindented\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("[docs](https://example.org)", "docs (`https://example.org`)"),
        ("<https://example.org>", "`https://example.org`"),
        ("![alt](https://example.org/x.png)", "\\[image: alt\\]"),
        ("a <!-- hidden --> b", "a b"),
        ("a<br>b", "a&lt;br>b"),
        ("| a | b |\n|---|---|\n| 1 | x |", "| a | b |\n| --- | --- |\n| 1 | x |"),
        ("a\n***\nb", "a\n\n***\n\nb"),
        ("~~gone~~ *em*", "~~gone~~ *em*"),
        ("`code`", "`code`"),
    ],
)
def test_markdown_keeps_its_form(source: str, written: str) -> None:
    assert block(source, 10_000) == written


def test_a_body_with_every_trick_is_tamed() -> None:
    body = (
        "Fixes other/repo#1 @org/everyone ![x](https://evil.example/?q=1) <!-- x -->\U000e0041\n"
        + "x" * 70_000
    )
    written = block(body, github_limits.PULL_BODY)
    assert len(written.encode()) <= github_limits.PULL_BODY
    assert written.startswith("Fixes `other/repo#1` `@org/everyone` \\[image: x\\]")
    assert "evil.example" not in written
    assert "<!--" not in written
    assert written.endswith(CUT_NOTE)


def test_two_byte_letters_are_counted_as_two() -> None:
    written = block("é" * 40_000, github_limits.CHECK_SUMMARY)
    assert len(written.encode()) <= github_limits.CHECK_SUMMARY
    assert len(written.encode()) > github_limits.CHECK_SUMMARY * 0.7
    assert written.endswith(CUT_NOTE)


@pytest.mark.parametrize("size", [65_534, 65_535, 65_536, 65_537])
def test_the_note_counts_too(size: int) -> None:
    text = "word " * (size // 5) + "w" * (size % 5)
    cut = cut_bytes(text, github_limits.CHECK_TEXT)
    assert len(cut.encode()) <= github_limits.CHECK_TEXT
    assert (cut == text) == (size <= github_limits.CHECK_TEXT)
    assert cut.endswith(CUT_NOTE) == (size > github_limits.CHECK_TEXT)


def test_a_cut_falls_between_blocks() -> None:
    text = "one\n\n" + "two " * 30 + "\n\nthree"
    assert cut_bytes(text, 100, "…") == "one\n\n…"


def test_a_cut_falls_between_items_and_rows() -> None:
    items = "\n".join(f"- item {n}" for n in range(50))
    assert cut_bytes(items, 60, "(cut)") == "\n".join(f"- item {n}" for n in range(5)) + "\n\n(cut)"
    rows = "| a |\n| --- |\n" + "\n".join(f"| row {n} |" for n in range(50))
    assert cut_bytes(rows, 60, "(cut)").splitlines()[-3:] == ["| row 2 |", "", "(cut)"]


def test_a_fence_that_is_cut_is_closed() -> None:
    code = "```py\n" + "\n".join(f"line {n}" for n in range(50)) + "\n```"
    cut = cut_bytes(code, 60, "(cut)")
    assert cut == "```py\nline 0\nline 1\nline 2\nline 3\nline 4\nline 5\n```\n\n(cut)"


def test_details_that_are_cut_are_closed() -> None:
    text = "<details>\n<summary>Earlier</summary>\n\nfirst\n\n" + "second " * 40 + "\n\n</details>"
    cut = cut_bytes(text, 120, "(cut)")
    assert cut.endswith("first\n\n</details>\n\n(cut)")


def test_one_paragraph_that_is_too_long_is_cut_inside() -> None:
    cut = cut_bytes("`@octocat` " * 400, 2_000, "(cut)")
    assert 1_200 < len(cut.encode()) <= 2_000
    assert cut.endswith(" `@octocat`…\n\n(cut)")


def test_small_limits_are_kept() -> None:
    for limit in range(40):
        assert len(cut_bytes("é" * 60, limit).encode()) <= limit
        assert len(inline("é" * 60, limit).encode()) <= limit
        assert len(plain("é" * 60, limit).encode()) <= limit
        assert len(block("é" * 60, limit).encode()) <= limit


def test_spans_and_fences_outlast_what_they_hold() -> None:
    assert code_span("a`b") == "``a`b``"
    assert code_span("`") == "`` ` ``"
    assert code_span(" \u200b ") == "*(empty)*"
    assert fenced("```\nx\n```", 100) == "````\n```\nx\n```\n````"
    assert fenced("one\ntwo\nthree\nfour\nfive", 30) == "```\none\ntwo\n… cut here\n```"
    assert cell("a|b `@x|y`", 100) == "a\\|b `` `@x\\|y` ``"


def test_links_are_ours_or_text() -> None:
    assert link("Run @x", "https://cave.example/1") == "[Run `@x`](<https://cave.example/1>)"
    for address in ("javascript:alert(1)", "//evil.example", "https://[", ""):
        assert link("Run", address) == "Run"


def test_plain_fields_look_the_same_and_mean_nothing() -> None:
    assert plain("fixes #12, GH-3 for @octocat", 100) == "fixes ＃12, GH\u20113 for ＠octocat"
    assert plain("a@-b.example, www.x", 100) == "a＠-b.example, www\u2024x"
    assert plain("a\nb", 100) == "a b"
    assert plain("a\nb\n", 100, lines=True) == "a\nb"
    assert cut_plain("äöü", 5) == "ä…"


@pytest.mark.parametrize(
    "text",
    [
        "mail @[text](https://evil.example)",
        "see #[1](https://evil.example)",
        "gh-[7](https://evil.example)",
        "@![everyone](https://evil.example/x.png)",
        "`a@b.example`@[text](https://evil.example)",
        "<https://evil.example>#[1](https://evil.example)",
        "[[a]](https://evil.example)#[1](https://evil.example)",
    ],
)
def test_a_dissolved_link_does_not_join_what_stands_before_it(text: str) -> None:
    shown = re.sub(r"`[^`]*`", "", block(text, 1_000))
    assert not re.search(r"(?i)@\w|#\d|gh-\d", shown.replace("\\", "")), shown
