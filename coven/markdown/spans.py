"""One line of untrusted text as GitHub Markdown, and code spans and fences around the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from coven.markdown.scrub import clean, clean_line, cut_plain

ELLIPSIS = "…"
_EMPTY = "*(empty)*"

# Whatever GitHub turns into a link, a notification or a reference somewhere else. The name of a
# host may begin with a dot or a hyphen there: "a@-b.example" is linked.
_ACTIVE = re.compile(
    r"@[\w.-]|#\d|gh-\d|://|www\.|mailto:|xmpp:|(?<![0-9a-z])[0-9a-f]{7,64}(?![0-9a-z])",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f]+\Z", re.IGNORECASE)
_LEADING = "([{\"'*_~,;:!?"
_TRAILING = ")]}\"'*_~.,;:!?"

_SPECIAL = re.compile(r"[\\`*\[\]|~$]|&(?=[#A-Za-z])|(?<![^\W_])_|_(?![^\W_])|!\Z")
_LINE_START = re.compile(r"[#+\-=:>]|(\d{1,9})([.)])")
_SPACES = re.compile(r"( +)")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#_-]{0,19}\Z")
# GitHub draws these, or offers to commit them; code of somebody else is only ever shown.
_DRAWN = frozenset({"mermaid", "geojson", "topojson", "stl", "math", "suggestion"})


class Line:
    """Builds one paragraph; knows where a line begins and which code spans would touch."""

    def __init__(self, *, table: bool = False) -> None:
        self._parts: list[str] = []
        self._table = table
        self.size = 0
        """Bytes so far."""

    def text(self, text: str) -> None:
        """Add literal text, already scrubbed, without line breaks."""
        for word in _SPACES.split(text):
            if not word:
                continue
            if word[0] == " ":
                if not self._at_start():
                    self.raw(" ")
            else:
                self._word(word)

    def code(self, text: str) -> None:
        """Add a code span; ``text`` is scrubbed and not blank."""
        # Two spans side by side would read as one run of backticks and let the second out.
        if self._parts and self._parts[-1].endswith("`"):
            self.raw(" ")
        span = _code_span(text)
        self.raw(span.replace("|", "\\|") if self._table else span)

    def raw(self, markdown: str) -> None:
        """Add finished Markdown."""
        self._parts.append(markdown)
        self.size += len(markdown.encode())

    def nested(self) -> Line:
        """An empty line for the inside of an emphasis that begins here."""
        return Line(table=self._table)

    def line_break(self) -> None:
        """End a line; blank in a table."""
        self.raw(" " if self._table else "\n")

    def finished(self) -> str:
        """The Markdown of the paragraph."""
        return "".join(self._parts).strip()

    def _at_start(self) -> bool:
        return not self._parts or self._parts[-1].endswith("\n")

    def _joins(self, word: str) -> bool:
        """Whether what stands right before makes more of this word than it is by itself."""
        before = "".join(self._parts[-8:]).replace("\\", "")
        if not before or before[-1].isspace() or before[-1] == "`":
            return False
        # What stands in a code span is no text, and what was active before is there already.
        tail = before.rpartition("`")[2].split()[-1][-80:]
        return any(start < len(tail) < end for start, end in active_places(tail + word))

    def _word(self, word: str) -> None:
        # Links and images are dissolved: "@[all](…)" must not become "@all".
        if self._joins(word):
            self.raw(" ")
        if not is_active(word):
            self.raw(_escape(word, line_start=self._at_start()))
            return
        core = word.lstrip(_LEADING)
        lead = word[: len(word) - len(core)]
        core = core.rstrip(_TRAILING)
        tail = word[len(lead) + len(core) :]
        if lead:
            self.raw(_escape(lead, line_start=self._at_start()))
        if core:
            self.code(core)
        if tail:
            self.raw(_escape(tail, line_start=False))


def is_active(word: str) -> bool:
    """Whether GitHub could make more of this word than text."""
    return next(active_places(word), None) is not None


def active_places(word: str) -> Iterator[tuple[int, int]]:
    """Where: the start and end of each piece that makes it so."""
    for match in _ACTIVE.finditer(word):
        found = match.group()
        if not _HEX.match(found):
            yield match.span()
            continue
        # A shorter run is a commit id only when it is not an ordinary word or number.
        mixed = any(c.isdigit() for c in found) and any(c.isalpha() for c in found)
        if mixed or len(found) >= 40:
            yield match.span()


def inline(text: str, limit: int) -> str:
    """Untrusted text on one line, literally, as at most ``limit`` bytes of Markdown."""
    return _inline(text, limit, table=False)


def cell(text: str, limit: int) -> str:
    """:func:`inline` for a cell of a table."""
    return _inline(text, limit, table=True)


def code_span(text: str) -> str:
    """A name as a code span on one line; the empty one says that it is empty."""
    text = clean_line(text)
    return _code_span(text) if text else _EMPTY


def code_cell(text: str, limit: int = 200) -> str:
    """:func:`code_span` for a cell of a table, of at most ``limit`` bytes of ``text``.

    A bar would end the cell, and with it the span (GFM, "Tables": also inside other inline spans).
    """
    return code_span(cut_plain(text, limit, note="…")).replace("|", "\\|")


def fenced(text: str, limit: int, language: str = "") -> str:
    """Program text in a fence that nothing inside can close, at most ``limit`` bytes.

    Cut after a whole line, with a note as the last line inside.
    """
    text = clean(text).strip("\n")
    runs = re.findall(r"`{3,}", text)
    fence = "`" * (max(map(len, runs), default=2) + 1)
    if not _LANGUAGE.match(language) or language.casefold() in _DRAWN:
        language = ""
    room = limit - len(f"{fence}{language}\n\n{fence}".encode())
    return f"{fence}{language}\n{cut_plain(text, room, note='… cut here', lines=True)}\n{fence}"


def link(text: str, url: str) -> str:
    """Our own link to ``url`` (http or https), with a text that may be untrusted.

    Any other address gives the text alone.
    """
    label = inline(text, 1_000) or "link"
    try:
        parts = urlsplit(url)
    except ValueError:
        return label
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return label
    return f"[{label}](<{quote(url, safe=_URL_SAFE)}>)"


_URL_SAFE = ":/?#@!$&'*+,;=%~-._"


def _inline(text: str, limit: int, *, table: bool) -> str:
    room = limit - len(ELLIPSIS.encode())
    line = Line(table=table)
    # Markdown is never shorter than the text, so what is far beyond the limit need not be read.
    for word in clean_line(text[: limit * 2 + 1_000]).split(" "):
        trial = Line(table=table)
        trial.raw("x" if line.size else "")
        trial.text(word)
        if line.size + trial.size > room:
            break
        line.text(f" {word}" if line.size else word)
    else:
        return line.finished()
    whole = Line(table=table)
    whole.text(clean_line(text[: limit * 2 + 1_000]))
    if len(text) <= limit * 2 + 1_000 and len(whole.finished().encode()) <= limit:
        return whole.finished()
    if not line.size:
        first = _first_piece(clean_line(text[: limit * 2]).split(" ")[0], room, table=table)
        line.raw(first)
    return f"{line.finished()}{ELLIPSIS}" if room >= 0 else ""


def _first_piece(word: str, room: int, *, table: bool) -> str:
    piece = cut_plain(word, max(room, 0), note="")
    while piece:
        line = Line(table=table)
        line.text(piece)
        if line.size <= room:
            return line.finished()
        piece = piece[: max(len(piece) * 3 // 4, 1)] if len(piece) > 1 else ""
    return ""


def _code_span(text: str) -> str:
    runs = re.findall(r"`+", text)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escape(word: str, *, line_start: bool) -> str:
    start = ""
    if line_start and (match := _LINE_START.match(word)):
        digits, dot = match.groups()
        start = f"{digits}\\{dot}" if digits else f"\\{match.group()}"
        word = word[match.end() :]
        if match.group() == ">":
            start = "&gt;"
    return start + _SPECIAL.sub(lambda m: f"\\{m.group()}", word).replace("<", "&lt;")
