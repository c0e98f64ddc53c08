"""The ``@familiar`` grammar: which commands a comment gives, to whom. Pure, and linear in time.

A command stands at the start of a line of ordinary text, or of a list item: ``@cody review``,
``- @cody: fix the typo``, ``/coven review``. What a reader sees as a quotation, as code, as a
heading with ``#``, or not at all (HTML) is never one; a CommonMark parser decides that, not
patterns. Mentions follow GitHub's own boundaries on the raw text: no look-alike letters, no
escapes, no entities, no ``@cody/team``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from coven.verbs import MEMORY_VERBS, VERBS, Verb, nearest

MAX_LINES = 2_000
"""Commands further down than this are not looked for."""
MAX_CANDIDATES = 10
"""Lines of one comment that are considered."""
INLINE_BUDGET = 4_000
"""What parsing the inline structure of one comment may cost; see ``_cost``."""
PARAGRAPH_LINES = 200
SLASH = "/coven"
"""Addresses the default familiar without naming it."""
COURTESIES = re.compile(
    "ah|answer|cool|done|great|hello|hey|hi|lgtm|nice|no|ok|okay|please|sorry|sure|thanks?|thx|wow"
    "|yeah|yes|yep"
)
"""What people say to a colleague: no command, no slip, and nothing to answer."""

# Private-use characters stand in for the ``@`` of each candidate while the parser runs.
_SENTINEL = 0xE000
_RESERVED = re.compile("[\ue000-\ue00f]")
_GAP = re.compile(
    r"[ \t\u00a0\u2000-\u200a\u202f\u3000]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]{1,4}){0,4}"
)
"""What may stand before a command on its line: blanks, and the markers of list items."""
_SEPARATOR = re.compile(
    r"[ \t\u00a0\u2000-\u200a\u202f\u3000,:;.!–—]*(?:\n[ \t\u00a0]*)?", re.ASCII
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}", re.ASCII)
_ENDS_WORD = re.compile(r"[\s:;,.!?–—]|\Z")
_AFTER_WORD = re.compile(r"[:;,.!?–—]*")


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``verb`` is None for a word that is no verb (``word`` as written)."""

    handle: str
    """Lower-case handle or alias that was addressed, or ``SLASH``."""
    word: str
    verb: Verb | None
    args: str
    """The text after the verb, up to the next command; in a list, to the end of its paragraph."""
    meant: str | None = None
    """The verb that ``word`` is close to, when it is none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a comment says to us. ``mentioned``: a handle occurs, be it in a quotation."""

    commands: tuple[Command, ...]
    mentioned: bool


class Grammar:
    """The grammar for a set of handles and aliases (without ``@``); ``slash``: ``/coven`` too."""

    def __init__(
        self, handles: Iterable[str], verbs: Mapping[str, Verb] = VERBS, *, slash: bool = False
    ) -> None:
        names = sorted({handle.lower() for handle in handles if handle}, key=len, reverse=True)
        self._verbs = verbs
        self._mention: re.Pattern[str] | None = None
        self._parser = MarkdownIt("commonmark").enable("table")
        # Text tokens from escapes and entities stay apart, so that only raw text can be a command.
        self._parser.core.ruler.disable(["inline", "text_join"])
        if names:
            any_name = "|".join(re.escape(name) for name in names)
            command = rf"|{SLASH}" if slash else ""
            self._mention = re.compile(
                rf"(?<![\w/.`@-])(?:@({any_name})(?:\[bot\])?{command})"
                r"(?![A-Za-z0-9_/-]|\.[A-Za-z0-9_])",
                # ASCII: without it, "ſ" and the Kelvin sign would match "s" and "k".
                re.IGNORECASE | re.ASCII,
            )

    def read(self, body: str | None) -> Reading:
        """The commands of a comment in their order, each (handle, verb) once."""
        if self._mention is None or not body or not ("@" in body or "/" in body):
            return Reading((), mentioned=False)
        text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
        if not any(self._whole(match, text) for match in self._mention.finditer(text)):
            return Reading((), mentioned=False)
        candidates = self._candidates(text)
        places = self._plain(text, candidates)
        return Reading(self._commands(text, places), mentioned=True)

    def _whole(self, match: re.Match[str], text: str) -> bool:
        # The pattern is ASCII; letters of other scripts are boundaries for nobody.
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        return not before.isalnum() and not after.isalnum()

    def _candidates(self, text: str) -> list[re.Match[str]]:
        """Mentions with nothing but blanks and list markers before them on their line."""
        assert self._mention is not None
        found: list[re.Match[str]] = []
        at = 0
        for _ in range(MAX_LINES):
            blanks = _GAP.match(text, at)
            start = blanks.end() if blanks else at
            match = self._mention.match(text, start)
            if match and self._whole(match, text):
                found.append(match)
            end = text.find("\n", at)
            if end < 0 or len(found) == MAX_CANDIDATES:
                break
            at = end + 1
        return found

    def _plain(self, text: str, candidates: list[re.Match[str]]) -> list[tuple[re.Match[str], int]]:
        """The candidates that a reader sees as ordinary text at the start of a line.

        With each, the position where its words end at the latest.
        """
        if not candidates:
            return []
        marked = list(_RESERVED.sub("\ufffd", text[: _paragraph_end(text, candidates[-1].end())]))
        for number, match in enumerate(candidates):
            marked[match.start()] = chr(_SENTINEL + number)
        ends: dict[int, int] = {}
        budget = INLINE_BUDGET
        for content, last_line in _paragraphs(self._parser.parse("".join(marked))):
            found: set[int] = set()
            first = content.lstrip(" \t\u00a0")[:1]
            if first and _RESERVED.match(first):
                # Nothing stands before it that could make it anything but text.
                found.add(ord(first) - _SENTINEL)
            if len(_RESERVED.findall(content)) > len(found):
                budget -= _cost(content)
                if budget >= 0:
                    found |= self._line_starts(content)
            if found:
                end = len(text) if last_line is None else _line_start(text, last_line)
                ends |= dict.fromkeys(found, end)
        return [(match, ends[number]) for number, match in enumerate(candidates) if number in ends]

    def _line_starts(self, content: str) -> set[int]:
        children: list[Token] = []
        self._parser.inline.parse(content, self._parser, {}, children)
        # A candidate stands at the start of its line; what is text begins a token there.
        texts = [child.content for child in children if child.type == "text" and child.level == 0]
        firsts = (text.lstrip(" \t\u00a0")[:1] for text in texts)
        return {ord(first) - _SENTINEL for first in firsts if first and _RESERVED.match(first)}

    def _commands(self, text: str, places: list[tuple[re.Match[str], int]]) -> tuple[Command, ...]:
        found: dict[tuple[str, str, str], Command] = {}
        following = [_line_of(text, match.start()) for match, _ in places[1:]] + [len(text)]
        for (match, limit), end in zip(places, following, strict=False):
            handle = (match.group(1) or SLASH).lower()
            command = self._command(text[match.end() : min(end, limit)], handle)
            if command is None or (command.verb is None and text[: match.start()].strip()):
                # A word that is no verb counts only where the comment begins: the rest is talk.
                continue
            # Two decisions of one kind are about two things; other work is wanted once.
            about = command.args if command.word in MEMORY_VERBS else ""
            found.setdefault((command.handle, command.word, about), command)
        return tuple(found.values())

    def _command(self, rest: str, handle: str) -> Command | None:
        gap = _SEPARATOR.match(rest)
        at = gap.end() if gap else 0
        word = _WORD.match(rest, at)
        if word is None or at == 0:
            return None
        if not _ENDS_WORD.match(rest, word.end()):
            return None
        name = word.group().lower()
        punctuation = _AFTER_WORD.match(rest, word.end())
        tail = rest[punctuation.end() if punctuation else word.end() :]
        verb = self._verbs.get(name)
        if verb is not None:
            return Command(handle, verb.name, verb, tail.strip())
        if COURTESIES.fullmatch(name):
            return None
        return Command(handle, word.group(), None, tail.strip(), nearest(name))


def _cost(content: str) -> int:
    """Plain text is cheap; every character that may open a construct is not."""
    return len(content) // 10 + 3 * sum(content.count(mark) for mark in "[]*_<`&\\")


def _paragraph_end(text: str, at: int) -> int:
    """The end of the paragraph that ``at`` stands in; what follows can't change its meaning."""
    for _ in range(PARAGRAPH_LINES):
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        at = end + 1
        following = text.find("\n", at)
        if not text[at : following if following >= 0 else len(text)].strip(" \t"):
            return at
    return at


def _line_of(text: str, at: int) -> int:
    """Where the line of ``at`` begins."""
    return text.rfind("\n", 0, at) + 1


def _line_start(text: str, line: int) -> int:
    """Where line number ``line`` begins, counted from 0; the end when there are fewer."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1
        if at == 0:
            return len(text)
    return at


def _paragraphs(tokens: list[Token]) -> Iterable[tuple[str, int | None]]:
    """Text of the paragraphs that stand in no quotation and no table.

    With each, the line after it when it stands in a list.
    """
    quotes = 0
    for opening, inline in pairwise(tokens):
        if opening.type in ("blockquote_open", "blockquote_close"):
            quotes += opening.nesting
        # Nothing at the start of a line is in a heading with ``#``.
        paragraph = opening.type in ("paragraph_open", "heading_open")
        if paragraph and not quotes and inline.type == "inline":
            in_list = opening.level > 0 and opening.map is not None
            yield inline.content, opening.map[1] if in_list and opening.map else None
