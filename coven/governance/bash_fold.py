"""What a harmless command prints, when that can be told without running it. Pure."""

from __future__ import annotations

import base64
import binascii
import re

from coven.governance.bash_words import UNKNOWN, Fields, is_known

_PRINTF_ESCAPES = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|0[0-7]{1,3}|[abefnrtv\\])")
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
            "v": "\v", "\\": "\\"}  # fmt: skip


def output_of(argv: Fields, stdin: str) -> str:
    """The output of ``argv`` reading ``stdin``; ``UNKNOWN`` when it can't be told."""
    if not argv or not all(is_known(field) for field in argv):
        return UNKNOWN
    name, rest = argv[0].rpartition("/")[2], list(argv[1:])
    if name == "echo":
        return _echo(rest)
    if name == "printf":
        return _printf(rest)
    if name in ("cat", "tee", "head") and not [one for one in rest if one != "-"]:
        return stdin
    if name == "base64" and rest in (["-d"], ["--decode"], ["-D"], ["-di"], ["-d", "-i"]):
        return _decoded(stdin, base64.b64decode)
    if name == "base32" and rest in (["-d"], ["--decode"]):
        return _decoded(stdin, base64.b32decode)
    if name == "xxd" and sorted(rest) in (["-p", "-r"], ["-pr"], ["-rp"]):
        return _decoded(stdin, bytes.fromhex)
    if name == "rev" and not rest and is_known(stdin):
        return "".join(line[::-1] + "\n" for line in stdin.splitlines())
    return UNKNOWN


def _decoded(stdin: str, decode: object) -> str:
    if not is_known(stdin):
        return UNKNOWN
    try:
        data: bytes = decode("".join(stdin.split()))  # type: ignore[operator]
        return data.decode("utf-8")
    except (ValueError, binascii.Error):
        return UNKNOWN


def _echo(rest: list[str]) -> str:
    newline, escapes = "\n", False
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        option = rest.pop(0)
        newline = "" if "n" in option else newline
        escapes = ("e" in option) or (escapes and "E" not in option)
    text = " ".join(rest)
    if escapes and "\\c" in text:
        return UNKNOWN
    return (_unescaped(text) if escapes else text) + newline


def _printf(rest: list[str]) -> str:
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest or rest[0].startswith("-"):
        return UNKNOWN
    form, values = _unescaped(rest[0]), rest[1:]
    if "%" not in form:
        return form
    if re.search(r"%(?![sb%])", form):
        return UNKNOWN
    slots = len(re.findall(r"%[sb]", form))
    if slots == 0:
        return form.replace("%%", "%")
    printed = []
    for start in range(0, max(len(values), 1), slots):
        given = iter(values[start : start + slots])

        def put(match: re.Match[str], given: object = given) -> str:
            if match.group() == "%%":
                return "%"
            value = next(given, "")  # type: ignore[call-overload]
            return _unescaped(value) if match.group() == "%b" else str(value)

        printed.append(re.sub(r"%[sb%]", put, form))
    return "".join(printed)


def _unescaped(text: str) -> str:
    def put(match: re.Match[str]) -> str:
        code = match.group(1)
        if code in _LETTERS:
            return _LETTERS[code]
        return chr(int(code[1:], 16) if code[0] == "x" else int(code, 8) & 0xFF)

    return _PRINTF_ESCAPES.sub(put, text)
