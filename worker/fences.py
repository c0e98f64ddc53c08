"""Untrusted text on its way into a prompt: made visible, bounded and fenced. Pure.

A fence is a pair of lines with a random nonce; text inside can't close it, since it can't know
the nonce, and a nonce found in the text is taken out. Cutting comes after cleaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from coven.visible import is_hidden


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text without hidden parts, and how much was hidden."""

    text: str
    comments: int = 0
    """HTML comments taken out."""
    characters: int = 0
    """Invisible characters taken out."""

    @property
    def note(self) -> str | None:
        """One sentence about what was taken out, or None."""
        if not self.comments and not self.characters:
            return None
        return (
            f"[note: hidden text was removed: {self.comments} HTML comment(s), "
            f"{self.characters} invisible character(s)]"
        )


def without_hidden(text: str) -> Cleaned:
    """Take out what a reader on GitHub would not see: HTML comments and invisible characters."""
    # Characters first: a zero-width character must not keep a comment from being recognised.
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    seen = "".join(char for char in plain if not is_hidden(char))
    kept, comments, position = [], 0, 0
    while (start := seen.find("<!--", position)) != -1:
        kept.append(seen[position:start])
        comments += 1
        end = seen.find("-->", start + 4)
        # An open comment hides all that follows.
        position = len(seen) if end == -1 else end + 3
    kept.append(seen[position:])
    return Cleaned("".join(kept), comments, len(plain) - len(seen))


def bounded(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, with a note where it was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    note = f"\n[note: cut here; {len(raw)} bytes were there, {limit} are allowed]"
    room = max(limit - len(note.encode()), 0)
    return raw[:room].decode("utf-8", "ignore") + note[:limit]


def fenced(title: str, text: str, nonce: str) -> str:
    """``text`` between two lines that only we can write."""
    inner = text
    while nonce in inner:
        # Once is not enough: taking one out may join the halves of another.
        inner = inner.replace(nonce, "")
    return f"=== BEGIN {title} [{nonce}] ===\n{inner}\n=== END {title} [{nonce}] ==="


def one_line(text: str, limit: int) -> str:
    """Visible text in one line of at most ``limit`` characters."""
    line = " ".join(without_hidden(text).text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
