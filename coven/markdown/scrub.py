"""Characters: what may stand in any text that we show, whatever its context."""

from __future__ import annotations

import re
import unicodedata

# Everything outside printable ASCII is looked at one by one; the rest never needs it.
_UNUSUAL = re.compile(r"[^\n -~]")
# Letters and marks by category that nevertheless show nothing.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_MARKER = re.compile(r"<!--(?=\s{0,8}coven-github)", re.IGNORECASE)
_MARKS_IN_A_ROW = re.compile(
    r"([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{4})"
    r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
)
_PLAIN_MENTION = re.compile(r"@(?=[\w.-])")
_PLAIN_REFERENCE = re.compile(r"#(?=\d)")
_PLAIN_GH = re.compile(r"(?<=gh)-(?=\d)", re.IGNORECASE)
_PLAIN_URL = re.compile(r"(?<=:)//")
_PLAIN_WWW = re.compile(r"(?<=www)\.(?=\w)", re.IGNORECASE)


def clean(text: str) -> str:
    """Without control, bidirectional, zero-width, tag and other invisible characters.

    Line breaks become ``\\n``, every other space one plain space. Our own markers are broken.
    """
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    text = _UNUSUAL.sub(_visible, text)
    text = _MARKS_IN_A_ROW.sub(r"\1", text)
    return _MARKER.sub("<!-", text)


def clean_line(text: str) -> str:
    """:func:`clean`, on one line with single spaces."""
    return " ".join(clean(text).split())


def plain(text: str, limit: int, *, lines: bool = False) -> str:
    """Untrusted text for a field that GitHub does not read as Markdown, at most ``limit`` bytes.

    The signs of mentions, references and addresses become look-alikes that GitHub does not
    know: such a field may turn into a commit subject, which it scans. ``lines`` keeps line breaks.
    """
    text = clean(text).strip() if lines else clean_line(text)
    text = _PLAIN_MENTION.sub("\uff20", text)
    text = _PLAIN_REFERENCE.sub("\uff03", text)
    text = _PLAIN_GH.sub("\u2011", text)
    text = _PLAIN_URL.sub("\u2215\u2215", text)
    text = _PLAIN_WWW.sub("\u2024", text)
    return cut_plain(text, limit)


def cut_plain(text: str, limit: int, note: str = "…", *, lines: bool = False) -> str:
    """At most ``limit`` UTF-8 bytes of ``text``, ending in ``note`` when something is missing.

    Cut between characters, or after a whole line with ``note`` on its own line.
    """
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    end = f"\n{note}" if lines and note else note
    room = limit - len(end.encode())
    if room < 0:
        return _prefix(note.encode(), limit)
    kept = _prefix(data, room)
    if lines and "\n" in kept:
        kept = kept.rpartition("\n")[0]
    return f"{kept.rstrip()}{end}"


def _prefix(data: bytes, limit: int) -> str:
    return data[: max(limit, 0)].decode(errors="ignore")


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    if char in "\r\v\f\x85\u2028\u2029":
        return "\n"
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    if category == "Cs":
        return "\ufffd"
    hidden = category in {"Cc", "Cf", "Cn"} or char in _BLANK or _is_selector(char)
    return "" if hidden else char


def _is_selector(char: str) -> bool:
    # U+FE0F is part of ordinary emoji; the other variation selectors can carry hidden bytes.
    return "\ufe00" <= char <= "\ufe0e" or "\U000e0100" <= char <= "\U000e01ef"
