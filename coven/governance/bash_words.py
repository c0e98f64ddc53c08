"""From the source text of one shell word to the fields that bash makes of it. Pure.

Rules: bash(1), EXPANSION.

A field is text with three marks in it: ``UNKNOWN`` stands for text that only the running shell
knows, ``SPLIT`` for such text that may also become several fields or none, and ``GLOB`` stands
before an unquoted ``*``, ``?`` or ``[``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TypeAlias

from coven.governance.bash_tokens import Token, Unreadable, names, tokenize

UNKNOWN = "\ue000"
SPLIT = "\ue001"
GLOB = "\ue002"
MARKS = frozenset((UNKNOWN, SPLIT, GLOB))

MAX_FIELDS = 256
"""Fields of one word after brace expansion."""

MAX_READINGS = 16
"""Different values that one word may have, from variables with several assignments."""

Fields: TypeAlias = tuple[str, ...]
Lookup: TypeAlias = Callable[[str], "tuple[str, ...] | None"]
"""The values that a variable may have (with marks), or None when nobody knows."""

_SIMPLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=+?])(.*))?\Z", re.DOTALL)
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.(-?\d{1,3}))?\Z")


def is_known(field: str) -> bool:
    """Whether the field is exactly this text, whatever happens at run time."""
    return not any(mark in field for mark in MARKS)


def source_text(field: str) -> str:
    """The field as a person would write it, for records and for substring rules."""
    return field.replace(GLOB, "").replace(UNKNOWN, "$?").replace(SPLIT, "$?")


class Words:
    """Reads words of one command. ``lookup`` knows variables, ``home`` where ``~`` leads."""

    def __init__(self, lookup: Lookup, home: Callable[[], tuple[str, ...] | None]) -> None:
        self._lookup = lookup
        self._home = home

    def readings(self, source: str, *, assignment: bool = False) -> tuple[Fields, ...]:
        """Every list of fields that this word may become.

        ``assignment``: the word is a value, so no braces, no splitting and no globs. Raises
        ``Unreadable``.
        """
        if MARKS & set(source):
            raise Unreadable("a character that is reserved here")
        tokens = tokenize(source)
        variants = [tokens] if assignment else _braces(tokens)
        found: list[Fields] = [()]
        for variant in variants:
            options = self._expand(variant, assignment)
            found = [before + option for before in found for option in options]
            if len(found) > MAX_READINGS:
                return ((SPLIT,),)
            if any(len(fields) > MAX_FIELDS for fields in found):
                raise Unreadable("too many words from one")
        return tuple(dict.fromkeys(found))

    def value(self, source: str) -> tuple[str, ...]:
        """What the word may be as one text: a value, a here-string."""
        return tuple(
            "".join(fields) if len(fields) < 2 else UNKNOWN
            for fields in self.readings(source, assignment=True)
        )

    def target(self, source: str) -> tuple[str, ...]:
        """What a redirection may point at: bash expands its patterns, other shells do not."""
        expanded = (fields[0] for fields in self.readings(source) if len(fields) == 1)
        return tuple(dict.fromkeys((*self.value(source), *expanded)))

    def _expand(self, tokens: list[Token], assignment: bool) -> list[Fields]:
        options: list[list[Token]] = [[]]
        for token in self._tilde(tokens):
            values = self._values(token)
            if len(values) == 1:
                for option in options:
                    option += values[0]
                continue
            options = [before + more for before in options for more in values]
            if len(options) > MAX_READINGS:
                return [(UNKNOWN if assignment else SPLIT,)]
        return [_fields(option, assignment) for option in options]

    def _values(self, token: Token) -> list[list[Token]]:
        if token.kind != "var":
            return [[token]]
        match = _SIMPLE.match(token.text)
        if match is None:
            return [[Token("unknown", "", token.quoted)]]
        name, operator, word = match.groups()
        known = self._lookup(name)
        options: list[list[Token]] = []
        if known is None:
            options.append([Token("unknown", "", token.quoted)])
        else:
            options += [[_piece(char, token.quoted) for char in value] for value in known]
        if operator and operator[-1] in "-=+":
            for inner in self.readings(word, assignment=True):
                text = "".join(inner)
                options.append([_piece(char, token.quoted) for char in text])
        return options

    def _tilde(self, tokens: list[Token]) -> list[Token]:
        if not tokens or tokens[0] != Token("char", "~", False):
            return tokens
        end = next(
            (
                n
                for n, token in enumerate(tokens)
                if token.kind != "char" or token.quoted or token.text == "/"
            ),
            len(tokens),
        )
        if end < len(tokens) and tokens[end] != Token("char", "/", False):
            return tokens if tokens[end].kind == "char" else [Token("unknown", "", True), *tokens]
        home = self._home() if end == 1 else None
        if home is None or len(home) != 1:
            return [Token("unknown", "", True), *tokens[end:]]
        return [*(_piece(char, True) for char in home[0]), *tokens[end:]]


def _piece(char: str, quoted: bool) -> Token:
    """One character of an expanded value; marks keep their meaning."""
    if char == SPLIT:
        return Token("unknown", "", quoted)
    if char == UNKNOWN:
        return Token("unknown", "", quoted)
    return Token("value", char, quoted)


def _fields(tokens: list[Token], assignment: bool) -> Fields:
    fields: list[str] = []
    current: list[str] | None = None
    for kind, text, quoted in tokens:
        live = not quoted and not assignment
        if kind == "value" and live and text in " \t\n":
            if current is not None:
                fields.append("".join(current))
            current = None
            continue
        if current is None:
            current = []
        if kind == "many" or (kind == "unknown" and not quoted):
            current.append(UNKNOWN if assignment else SPLIT)
        elif kind == "unknown":
            current.append(UNKNOWN)
        else:
            current.append(GLOB + text if live and text in ("*", "?", "[") else text)
    if current is not None:
        fields.append("".join(current))
    return tuple(fields)


def _braces(tokens: list[Token]) -> list[list[Token]]:
    """Brace expansion: ``a{b,c}d`` and ``{1..3}``."""
    done: list[list[Token]] = []
    todo = [tokens]
    while todo:
        word = todo.pop(0)
        parts = _first_braces(word)
        if parts is None:
            done.append(word)
        else:
            start, end, choices = parts
            todo[:0] = [[*word[:start], *choice, *word[end:]] for choice in choices]
        if len(todo) + len(done) > MAX_FIELDS:
            raise Unreadable("too many words from braces")
    return done


def _first_braces(word: list[Token]) -> tuple[int, int, list[list[Token]]] | None:
    for start, token in enumerate(word):
        if token != Token("char", "{", False):
            continue
        depth, cuts, quiet = 0, [start], True
        for at in range(start, len(word)):
            if word[at].quoted or word[at].kind != "char":
                continue
            text = word[at].text
            if text == "{":
                depth += 1
            elif text == "," and depth == 1:
                cuts.append(at)
                quiet = False
            elif text == "}":
                depth -= 1
                if depth == 0:
                    cuts.append(at)
                    break
        if depth != 0:
            continue
        if not quiet:
            pairs = itertools.pairwise(cuts)
            return start, cuts[-1] + 1, [word[low + 1 : high] for low, high in pairs]
        inner = word[start + 1 : cuts[-1]]
        if all(part.kind == "char" and not part.quoted for part in inner):
            match = _RANGE.match("".join(part.text for part in inner))
            if match:
                # Neither which numbers nor how many of them matters to any rule.
                return start, cuts[-1] + 1, [[Token("unknown", "", False)]]
    return None


__all__ = [
    "GLOB", "MARKS", "SPLIT", "UNKNOWN", "Fields", "Lookup", "Unreadable", "Words", "is_known",
    "names", "source_text",
]  # fmt: skip
