"""From the source text of one shell word to the fields that bash makes of it. Pure.

This is a second reading, independent of the tree: a word that does not end where the tree says is
refused as unreadable. Rules: bash(1), QUOTING and EXPANSION.

A field is text with three marks in it: ``UNKNOWN`` stands for text that only the running shell
knows, ``SPLIT`` for such text that may also become several fields or none, and ``GLOB`` stands
before an unquoted ``*``, ``?`` or ``[``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

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

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=+?])(.*))?\Z", re.DOTALL)
_SPECIAL = "@*#?-$!0123456789"
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.(-?\d{1,3}))?\Z")
_ANSI = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI_CODE = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")


def names(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


class Unreadable(Exception):
    """This text is not one shell word, or it is beyond our limits. The message says why."""


class Token(NamedTuple):
    """A piece of a word: a character, a variable, or something unknown."""

    kind: str
    """``char``, ``var``, ``unknown``, ``many`` (unknown, several fields even in quotes)."""
    text: str
    quoted: bool


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
        """What the word may be as one text: a value, a redirection target, a here-string."""
        return tuple(
            "".join(fields) if len(fields) < 2 else UNKNOWN
            for fields in self.readings(source, assignment=True)
        )

    def _expand(self, tokens: list[Token], assignment: bool) -> list[Fields]:
        options: list[list[Token]] = [[]]
        for token in self._tilde(tokens):
            values = self._values(token)
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
    for token in tokens:
        if token.kind == "many" or (token.kind == "unknown" and not token.quoted):
            current = [*(current or []), UNKNOWN if assignment else SPLIT]
        elif token.kind == "unknown":
            current = [*(current or []), UNKNOWN]
        elif token.kind == "value" and not token.quoted and not assignment:
            if token.text in " \t\n":
                if current is not None:
                    fields.append("".join(current))
                current = None
            else:
                mark = GLOB if token.text in "*?[" else ""
                current = [*(current or []), mark + token.text]
        else:
            live = token.kind == "char" and not token.quoted and not assignment
            mark = GLOB if live and token.text in ("*", "?", "[") else ""
            current = [*(current or []), mark + token.text]
    if current is not None:
        fields.append("".join(current))
    return tuple(fields)


def tokenize(source: str) -> list[Token]:
    """Split a word into pieces. Raises ``Unreadable`` when it is not exactly one word."""
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            if at + 1 >= len(source):
                raise Unreadable("a backslash at the end")
            if source[at + 1] != "\n":
                tokens.append(Token("char", source[at + 1], True))
            at += 2
        elif char == "'":
            end = source.find("'", at + 1)
            if end < 0:
                raise Unreadable("an open quote")
            tokens.append(Token("char", source[at + 1 : end], True))
            at = end + 1
        elif char == '"':
            at = _double_quoted(source, at + 1, tokens)
        elif char == "$":
            at = _dollar(source, at, tokens, quoted=False)
        elif char == "`":
            at = _backticks(source, at)
            tokens.append(Token("unknown", "", False))
        elif char in "<>" and source[at + 1 : at + 2] == "(":
            at = balanced(source, at + 1)
            tokens.append(Token("char", "/dev/fd/63", True))
        elif char in " \t\n;&|()<>":
            raise Unreadable(f"{char!r} inside a word")
        else:
            tokens.append(Token("char", char, False))
            at += 1
    return tokens


def _double_quoted(source: str, at: int, tokens: list[Token]) -> int:
    tokens.append(Token("char", "", True))
    while at < len(source):
        char = source[at]
        if char == '"':
            return at + 1
        if char == "\\" and source[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            if source[at + 1] != "\n":
                tokens.append(Token("char", source[at + 1], True))
            at += 2
        elif char == "$":
            at = _dollar(source, at, tokens, quoted=True)
        elif char == "`":
            at = _backticks(source, at)
            tokens.append(Token("unknown", "", True))
        else:
            tokens.append(Token("char", char, True))
            at += 1
    raise Unreadable("an open double quote")


def _dollar(source: str, at: int, tokens: list[Token], *, quoted: bool) -> int:
    follows = source[at + 1 : at + 2]
    if follows == "(":
        tokens.append(Token("unknown", "", quoted))
        return balanced(source, at + 1)
    if follows == "{":
        end = _closing_brace(source, at + 2)
        inner = source[at + 2 : end]
        kind = "many" if "@" in inner or (not quoted and "*" in inner) else "var"
        tokens.append(Token(kind, inner, quoted))
        return end + 1
    if follows == "'" and not quoted:
        return _ansi_c(source, at + 2, tokens)
    if follows == '"' and not quoted:
        return _double_quoted(source, at + 2, tokens)
    if follows == "[":
        raise Unreadable("arithmetic in brackets")
    name = _NAME.match(source, at + 1)
    if name:
        tokens.append(Token("var", name.group(), quoted))
        return name.end()
    if follows and follows in _SPECIAL:
        tokens.append(Token("many" if follows in "@*" else "unknown", "", quoted))
        return at + 2
    tokens.append(Token("char", "$", True))
    return at + 1


def _ansi_c(source: str, at: int, tokens: list[Token]) -> int:
    text: list[str] = []
    while at < len(source):
        char = source[at]
        if char == "'":
            if any(ord(one) > 127 for one in text) or "\0" in text:
                raise Unreadable("an escape that depends on the locale")
            tokens.append(Token("char", "".join(text), True))
            return at + 1
        if char != "\\":
            if ord(char) > 127:
                raise Unreadable("non-ASCII text in an ANSI-C string")
            text.append(char)
            at += 1
            continue
        code = _ANSI_CODE.match(source, at + 1)
        escape = source[at + 1 : at + 2]
        if code:
            digits = next(group for group in code.groups() if group)
            number = int(digits, 8 if code.group(4) else 16)
            text.append(chr(number & 0xFF if code.group(4) else min(number, 0x10FFFF)))
            at = code.end()
        elif escape == "c":
            text.append(chr(ord(source[at + 2 : at + 3] or "@") & 0x1F))
            at += 3
        else:
            text.append(_ANSI.get(escape, "\\" + escape))
            at += 2
    raise Unreadable("an open ANSI-C string")


def _backticks(source: str, at: int) -> int:
    at += 1
    while at < len(source):
        if source[at] == "`":
            return at + 1
        at += 2 if source[at] == "\\" else 1
    raise Unreadable("an open backtick")


def _closing_brace(source: str, at: int) -> int:
    while at < len(source):
        char = source[at]
        if char == "}":
            return at
        at = _skip(source, at)
    raise Unreadable("an open parameter expansion")


def balanced(source: str, at: int) -> int:
    """The place after the bracket that closes the one at ``at``. Raises ``Unreadable``."""
    depth = 0
    while at < len(source):
        char = source[at]
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at + 1
        at = at + 1 if char in "()" else _skip(source, at)
    raise Unreadable("an open bracket")


def _skip(source: str, at: int) -> int:
    """The place after one character, or after one quoted or bracketed stretch."""
    char = source[at]
    if char == "\\":
        return at + 2
    if char == "'":
        end = source.find("'", at + 1)
        if end < 0:
            raise Unreadable("an open quote")
        return end + 1
    if char == '"':
        return _double_quoted(source, at + 1, [])
    if char == "`":
        return _backticks(source, at)
    if char == "$" and source[at + 1 : at + 2] in ("(", "{", "'", '"'):
        return _dollar(source, at, [], quoted=False)
    return at + 1


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
