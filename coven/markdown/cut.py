"""Cutting Markdown to GitHub's sizes without breaking what is left."""

from __future__ import annotations

from dataclasses import dataclass

from coven.markdown.blocks import outline, rewrite
from coven.markdown.scrub import cut_plain

CUT_NOTE = "*Cut here: the text is longer than GitHub takes.*"
_WORTH_FILLING = 400
"""Bytes of room below which the next block is not begun."""


def block(text: str, limit: int, note: str = CUT_NOTE) -> str:
    """Untrusted Markdown as harmless Markdown of at most ``limit`` bytes.

    Lists, quotes, code, emphasis and tables stay; see the package text for what does not.
    ``note`` is finished Markdown and is shown when something was cut.
    """
    # Writing again never shortens a text much, so far more than the limit need not be parsed.
    most = max(limit, 0) * 2 + 1_000
    written = rewrite(text[:most])
    if len(text) > most and len(written.encode()) <= limit:
        room = limit - len(f"\n\n{note}".encode())
        return f"{cut_bytes(written, room, '')}\n\n{note}" if room > 0 else cut_plain(note, limit)
    return cut_bytes(written, limit, note)


def cut_bytes(text: str, limit: int, note: str = CUT_NOTE) -> str:
    """At most ``limit`` UTF-8 bytes of finished Markdown, ending in ``note`` when cut.

    Cut after a whole block, list item, table row or line of code; fences and ``<details>`` that
    are open there are closed. Only a paragraph that alone is too long is cut inside, between two
    characters, and is then written again so that nothing half open is left.
    """
    if len(text.encode()) <= limit:
        return text
    tail = f"\n\n{note}" if note else ""
    room = limit - len(tail.encode())
    if room <= 0:
        return cut_plain(note, limit, note="")
    lines = text.split("\n")
    sizes = _cumulated(lines)
    kept, used, until = "", 0, 0
    places = _places(text, len(lines))
    for place in reversed(places):
        size = sizes[place.line] + len(place.closing.encode())
        if size <= room:
            kept = "\n".join(lines[: place.line]).rstrip() + place.closing
            used, until = size, place.line
            break
    squeezable = not kept.endswith(("```", "</details>"))
    if room - used > _WORTH_FILLING and squeezable:
        more = _squeeze("\n".join(lines[until : _block_end(places, until)]), room - used - 2)
        kept = f"{kept}\n\n{more}" if kept and more else kept or more
    return f"{kept}{tail}" if kept else cut_plain(note, limit, note="")


@dataclass(frozen=True, slots=True)
class _Place:
    """After ``line`` lines the text may end, if ``closing`` is put behind it."""

    line: int
    closing: str = ""
    whole: bool = True


def _places(text: str, total: int) -> list[_Place]:
    places: dict[int, _Place] = {}
    depth = 0
    for token in outline().parse(text):
        if token.map is None:
            continue
        start, end = token.map
        end = min(end, total)
        if token.type == "html_block" and token.level == 0:
            lowered = token.content.casefold()
            depth = max(depth + lowered.count("<details") - lowered.count("</details"), 0)
        closing = "\n\n</details>" * depth
        if token.level == 0 and token.type == "fence":
            for line in range(start + 2, end):
                places[line] = _Place(line, f"\n{token.markup}{closing}", whole=False)
        elif (token.type, token.level) in {("list_item_open", 1), ("tr_open", 2)}:
            places.setdefault(end, _Place(end, closing, whole=False))
        if token.level == 0:
            places[end] = _Place(end, closing)
    return sorted(places.values(), key=lambda place: place.line)


def _block_end(places: list[_Place], after: int) -> int:
    return next((p.line for p in places if p.line > after and p.whole), after)


def _cumulated(lines: list[str]) -> list[int]:
    sizes = [0]
    for line in lines:
        sizes.append(sizes[-1] + len(line.encode()) + 1)
    return sizes


def _squeeze(text: str, room: int) -> str:
    piece = cut_plain(text.strip(), room, note="…")
    head, space, word = piece.rpartition(" ")
    if space and len(word) < 100:
        piece = f"{head}…"
    while piece:
        written = rewrite(piece)
        if len(written.encode()) <= room:
            return written
        if len(piece) < 2:
            break
        piece = f"{piece[: len(piece) * 3 // 4].rstrip()}…"
        if piece == "…":
            break
    return ""
