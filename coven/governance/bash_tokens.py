"""The pieces of one shell word: quoted text, variables, substitutions. Pure.

This is a second reading, independent of the tree: a word that does not end where the tree says is
refused as unreadable. Rules: bash(1), QUOTING.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = "@*#?-$!0123456789"
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
