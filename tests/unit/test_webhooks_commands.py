"""The grammar: what is a command, what is talk, what only looks like one."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from coven import texts
from coven.texts import Voice
from coven.verbs import HELP, VERBS
from webhooks.commands import MAX_CANDIDATES, MAX_LINES, SLASH, Grammar

GRAMMAR = Grammar(["cody", "familiar", "no.va-2"], slash=True)


def said(body: str | None) -> list[tuple[str, str, str]]:
    return [(c.handle, c.word, c.args) for c in GRAMMAR.read(body).commands]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_understood(verb: str) -> None:
    (command,) = GRAMMAR.read(f"@cody {verb}").commands
    assert command.verb is VERBS[verb]


@pytest.mark.parametrize(
    ("body", "verb", "args"),
    [
        ("@cody review", "review", ""),
        ("  @cody review", "review", ""),
        ("@CODY Review", "review", ""),
        ("@cody, review", "review", ""),
        ("@cody: fix x", "fix", "x"),
        ("@cody fix: x", "fix", "x"),
        ("@cody fix:x", "fix", "x"),
        ("@cody review.", "review", ""),
        ("@cody review!", "review", ""),
        ("@cody — review", "review", ""),
        ("@cody fix —deep", "fix", "—deep"),
        ("@cody\nreview", "review", ""),
        ("@cody fix\r\n\r\n", "fix", ""),
        ("@cody\u00a0fix\tit", "fix", "it"),
        ("@cody[bot] fix", "fix", ""),
        ("hello\n@cody fix it", "fix", "it"),
        ("hello\n\n@cody fix it\n\n```\ncode\n```", "fix", "it\n\n```\ncode\n```"),
        ("@cody fix\n===", "fix", "==="),
        ("@cody fix `a` and <b>", "fix", "`a` and <b>"),
        ("@cody review @cody fix", "review", "@cody fix"),
        ("`unbalanced\n@cody fix", "fix", ""),
        ("> quoted\n\n@cody fix", "fix", ""),
        ("- @cody fix", "fix", ""),
        ("1. @cody fix", "fix", ""),
        ("12) @cody fix", "fix", ""),
        ("* - @cody fix", "fix", ""),
        ("- a\n- @cody fix b", "fix", "b"),
        ("- @cody fix a\n  more\n- another item", "fix", "a\n  more"),
        ("- @cody fix a\n\n  second paragraph", "fix", "a"),
        ("- item\n  @cody fix it", "fix", "it"),
        ("```\ncode\n```\n@cody fix", "fix", ""),
    ],
)
def test_commands(body: str, verb: str, args: str) -> None:
    assert said(body) == [("cody", verb, args)]


@pytest.mark.parametrize(
    "body",
    [
        "> @cody fix",
        "> > @cody fix",
        ">@cody fix",
        "> quoted\n@cody fix",
        "> @cody approve\n\nwhy did it do that?",
        "`@cody fix`",
        "`` @cody fix ``",
        "a `b\n@cody fix\n` c",
        "```\n@cody fix\n```",
        "~~~\n@cody fix\n~~~",
        "```\n@cody fix",
        "    @cody fix",
        "\t@cody fix",
        "<!-- @cody fix -->",
        "<!--\n@cody fix\n-->",
        "text <!--\n@cody fix\n--> text",
        "<div>\n@cody fix\n</div>",
        "text <a title='\n@cody fix\n'>",
        '[x](u "\n@cody fix\n")',
        "[x\n@cody fix](u)",
        "**x\n@cody fix**",
        "a | b\n--|--\n@cody fix | x",
        "# @cody fix",
        "- > @cody fix",
        "> - @cody fix",
        "> 1. @cody fix",
        "- ```\n  @cody fix\n  ```",
        "-     @cody fix",
        "- [ ] @cody fix",
        "- # @cody fix",
        "- thanks @cody fix",
        "-@cody fix",
        "1.@cody fix",
        "/ @cody fix",
        "x /coven fix",
        "`/coven fix`",
        "> /coven fix",
        "/coven",
        "/coven/fix",
        "/covens fix",
        "/coven-fix now",
        "@cody thanks a lot",
        "@cody LGTM",
        "\\@cody fix",
        "&#64;cody fix",
        "&commat;cody fix",
        "thanks @cody fix",
        "ok, @cody review",
        "@cody",
        "@cody `fix`",
        "@cody **fix**",
        "@cody > fix",
        "@cody 123",
        "@cody\u200b fix",
        "@cody \u200bfix",
        "@cody fix\u00e9",
        "@cody ﬁx",
        "@cody ſtatus",
        "talk\n@cody can you look?",
    ],
)
def test_mentions_that_are_no_commands(body: str) -> None:
    assert said(body) == []


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "hello",
        "@codyx fix",
        "@cody-2 fix",
        "@cody_2 fix",
        "@cody/team fix",
        "@cody.example fix",
        "@codyé fix",
        "mail person@cody.com",
        "x@cody fix",
        "é@cody fix",
        "@@cody fix",
        "-@cody fix",
        "/@cody fix",
        "@co\u200bdy fix",
        "@сody fix",
        "@\u212aody fix",
        "@ cody fix",
        "@no-va-2 fix",
        "https://github.example/coven review",
        "./coven review",
        "@/coven review",
    ],
)
def test_not_even_mentions(body: str | None) -> None:
    reading = GRAMMAR.read(body)
    assert (reading.commands, reading.mentioned) == ((), False)


def test_unknown_word_counts_only_where_the_comment_begins() -> None:
    (command,) = GRAMMAR.read("@cody Frobnicate the thing").commands
    assert (command.verb, command.word, command.args) == (None, "Frobnicate", "the thing")
    assert said("@cody ask @cody to review") == [("cody", "ask", "@cody to review")]


@pytest.mark.parametrize(
    ("body", "verb", "args"),
    [("/coven review", "review", ""), ("/COVEN: Fix it", "fix", "it"), ("- /coven fix", "fix", "")],
)
def test_the_slash_names_nobody(body: str, verb: str, args: str) -> None:
    assert said(body) == [(SLASH, verb, args)]
    assert not Grammar(["cody"]).read(body).mentioned


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("reveiw", "review"),
        ("reviews", "review"),
        ("fixx", "fix"),
        ("CANCLE", "cancel"),
        ("stauts", "status"),
        ("ask", None),
        ("frobnicate", None),
        ("gardne", None),
    ],
)
def test_a_slip_of_the_fingers_is_known_where_the_comment_begins(
    word: str, meant: str | None
) -> None:
    (command,) = GRAMMAR.read(f"@cody {word} x").commands
    assert (command.verb, command.word, command.meant) == (None, word, meant)
    assert GRAMMAR.read(f"hello\n\n@cody {word} x").commands == ()


def test_several_commands_keep_their_order_and_come_once() -> None:
    body = (
        "@cody review\nplease\n\n@familiar fix a\n@CODY review again\n> @cody help\n\n@cody status"
    )
    assert said(body) == [
        ("cody", "review", "please"),
        ("familiar", "fix", "a"),
        ("cody", "status", ""),
    ]


def test_longest_handle_wins_and_dots_are_literal() -> None:
    grammar = Grammar(["cody", "cody-pro", "no.va"])
    assert [c.handle for c in grammar.read("@cody-pro fix").commands] == ["cody-pro"]
    assert not grammar.read("@noxva fix").mentioned


def test_without_handles_nothing_is_addressed() -> None:
    assert not Grammar([]).read("@cody fix").mentioned
    assert not Grammar([""]).read("@ fix").mentioned


def test_own_help_never_triggers_itself() -> None:
    voice = Voice("Cody", "cody")
    for text in (
        texts.reply_help(voice, HELP),
        texts.reply_help(voice, HELP, "@cody fix"),
        texts.reply_help(voice, HELP, "/coven fix", "fix"),
    ):
        assert GRAMMAR.read(text).commands == ()


def test_bounds_on_lines_and_candidates() -> None:
    assert said("words of prose\n" * (MAX_LINES - 1) + "@cody fix")
    assert not said("words of prose\n" * MAX_LINES + "@cody fix")
    assert len(GRAMMAR.read("@cody\n\n" * MAX_CANDIDATES + "@cody fix").commands) == 0


HOSTILE = {
    "mentions": "@cody " * 10_000,
    "command lines": "@cody review\n" * 4_600,
    "paragraphs": "@cody review\n\n" * 4_300,
    "no verbs": "@cody\n" * 10_000,
    "short lines": "a\n" * 29_000 + "@cody fix",
    "list": "- a\n" * 14_000 + "@cody fix",
    "quotes": ">" * 60_000,
    "deep quotes": "> " * 29_000 + "\n@cody fix",
    "brackets": "a\n@cody fix " + "[" * 59_000,
    "images": "a\n@cody fix " + "![" * 29_000,
    "comments": "a\n@cody fix " + "<!--" * 14_000,
    "code spans": "a\n@cody fix " + "`a``b```c" * 6_600,
    "fences": "```\n" * 14_000 + "@cody fix",
    "blanks": "@cody" + " " * 60_000,
    "indent": " " * 60_000 + "@cody fix",
    "tables": "a|b\n-|-\n" * 7_000 + "@cody fix",
    "definitions": "[a]: b\n" * 8_000 + "@cody fix",
    "items": "- @cody review\n" * 4_300,
    "markers": "- " * 29_000 + "@cody fix",
    "slashes": "/coven " * 8_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_sixty_kilobytes_take_no_time(name: str) -> None:
    best = min(_seconds(HOSTILE[name]) for _ in range(3))
    # 0.05 s is the promise on an idle machine; the rest is for a loaded one.
    assert best < 0.15


def _seconds(body: str) -> float:
    began = time.perf_counter()
    GRAMMAR.read(body)
    return time.perf_counter() - began


PIECES = st.sampled_from(
    [
        "@cody fix\n",
        "@cody fix",
        "@familiar review",
        "\n",
        "\n\n",
        "`",
        "``",
        "```\n",
        "> ",
        "a",
        " ",
        "<!--",
        "-->",
        "<b>",
        "<a t='",
        "'",
        "\\",
        "    ",
        "- ",
        "1. ",
        "/coven fix",
        "[",
        "](u)",
        "*",
        "**",
        "# ",
        "|-|\n",
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@given_settings(deadline=None, max_examples=300)
def test_agrees_with_a_full_commonmark_reading(body: str) -> None:
    """Whatever we act on, a full parse shows as plain text at the start of a line."""
    visible = _visible_line_starts(body)
    for command in GRAMMAR.read(body).commands:
        name = command.handle if command.handle == SLASH else f"@{command.handle}"
        assert any(line.lower().startswith(f"{name} {command.word}") for line in visible)


QUOTERS = st.sampled_from(["> ", "> > ", "    ", "> - ", "- > "])
LINES = st.lists(st.text(alphabet="abc @/.,-*_", max_size=20), max_size=4)


@given(QUOTERS, st.sampled_from(sorted(VERBS)), LINES)
@given_settings(deadline=None, max_examples=100)
def test_no_command_comes_from_quoted_text(quoter: str, verb: str, talk: list[str]) -> None:
    command = [f"@cody {verb}", "", f"/coven {verb}"]
    assert GRAMMAR.read("\n".join(f"{quoter}{line}" for line in command)).commands == ()
    fenced = "\n".join(["~~~", *talk, *command, "~~~"])
    assert GRAMMAR.read(fenced).commands == ()
    assert GRAMMAR.read("<!-- " + "\n".join([*talk, *command]) + "\n-->").commands == ()


WRITTEN = st.lists(
    st.tuples(
        st.sampled_from(["@cody", "@Familiar", "@CODY[bot]", "/coven"]),
        st.sampled_from(sorted(VERBS)),
        st.sampled_from([" ", ", ", ": ", ".\u00a0", "\n"]),
        st.text(alphabet="abc de", max_size=10).map(str.strip),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda part: (part[0].lower().removesuffix("[bot]"), part[1]),
)


@given(WRITTEN, st.sampled_from(["\n", "\r\n"]))
@given_settings(deadline=None, max_examples=200)
def test_what_is_written_is_what_is_read(
    parts: list[tuple[str, str, str, str]], line_end: str
) -> None:
    body = "\n\n".join(f"{who}{gap}{verb} {words}" for who, verb, gap, words in parts)
    assert said(body.replace("\n", line_end)) == [
        (who.lower().removeprefix("@").removesuffix("[bot]"), verb, words)
        for who, verb, _, words in parts
    ]


@given(st.text(max_size=300))
@given_settings(deadline=None, max_examples=100)
def test_any_text_is_read_without_error(text: str) -> None:
    for body in (text, f"@cody {text}", f"{text}\n@cody fix {text}"):
        for command in GRAMMAR.read(body).commands:
            assert command.args == command.args.strip()


def _visible_line_starts(body: str) -> list[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    lines: list[str] = []
    quotes = 0
    for opening, inline in pairwise(tokens):
        if opening.type in ("blockquote_open", "blockquote_close"):
            quotes += opening.nesting
        if inline.type != "inline" or quotes or opening.type in ("th_open", "td_open"):
            continue
        line = ""
        for child in inline.children or []:
            if child.type in ("softbreak", "hardbreak"):
                lines.append(line)
                line = ""
            elif child.type == "text" and child.level == 0:
                line += child.content
            elif not line.strip():
                # Something else begins this line.
                line = f"\0{line}"
        lines.append(line)
    return [line.lstrip(" \t") for line in lines]


def test_two_decisions_of_one_kind_are_two_and_other_work_is_one() -> None:
    body = "@cody approve M-1\n@cody approve M-2\n@cody approve M-1\n@cody fix a\n@cody fix b"
    found = Grammar(["cody"]).read(body).commands
    assert [(c.word, c.args) for c in found] == [
        ("approve", "M-1"),
        ("approve", "M-2"),
        ("fix", "a"),
    ]
