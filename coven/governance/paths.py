"""Which places a path may mean: as written, and as the file system resolves it. Pure.

Both forms count, because they differ when a symbolic link stands before ``..``. Checking a text
can't stop a race: somebody may change a link between the check and the write. Writers therefore
open without following links; what is judged here is the intent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Segments: TypeAlias = "tuple[str, ...]"
"""The parts of an absolute path without ``.``, ``..`` and empty ones; ``()`` is the root."""

Physical: TypeAlias = Callable[[str], str]
"""The real path of an absolute one; what does not exist yet is kept as written."""

View: TypeAlias = "tuple[str, str]"
"""A folder as a session sees it, and where it is on this machine."""

_PROC = re.compile(r"/proc/(?:self|thread-self|[0-9]+)(?:/task/[0-9]+)?/(root|cwd)(?=/|\Z)")
_DESCRIPTOR = re.compile(
    r"/dev/(?:fd/[0-9]+|stdin|stdout|stderr|null|zero|full|tty)|/proc/(?:self|thread-self)/fd/[0-9]+"
)
_HANDLE = re.compile(r"(?:/dev|/proc/(?:self|thread-self|[0-9]+)(?:/task/[0-9]+)?)/fd(?:/|\Z)")


class PathUnclear(ValueError):
    """Where the path leads can't be said; blocking rules then fire."""


@dataclass(frozen=True, slots=True)
class Places:
    """Every place that one path may mean.

    ``inside`` are the places that must all lie within an allow-list; ``any`` has these and the
    session's own view of them. ``device`` says that nothing is stored there (``/dev/null``, a
    descriptor that is open already).
    """

    any: tuple[Segments, ...]
    inside: tuple[Segments, ...]
    device: bool = False


def places(path: str, base: str | None, physical: Physical, views: Sequence[View] = ()) -> Places:
    """The places of ``path``, relative to ``base``. Raises ``PathUnclear``."""
    joined = join(path, base)
    written = lexical(joined)
    if _DESCRIPTOR.fullmatch(re.sub("/+", "/", joined)):
        return Places((), (), device=True)
    if _HANDLE.match(text_of(written)):
        raise PathUnclear("where an open handle leads can't be seen")
    hosted = _hosted(joined, views)
    unrooted = _unrooted(hosted, base)
    found = [lexical(unrooted), lexical(_real(unrooted, physical))]
    if unrooted != hosted:
        found.append(lexical(_real(hosted, physical)))
    inside = _forms(found)
    return Places(_forms([*found, written]), inside)


def join(path: str, base: str | None) -> str:
    """The absolute spelling, ``..`` still in it. Raises ``PathUnclear`` without a base."""
    if not path or "\0" in path or len(path) > 4096:
        raise PathUnclear("the path is empty, too long or holds a NUL byte")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise PathUnclear("the path is not UTF-8") from None
    if path.startswith("/"):
        return path
    if base is None or not base.startswith("/"):
        raise PathUnclear("the path is relative and nobody says to what")
    return f"{base}/{path}"


def lexical(path: str) -> Segments:
    """The parts with ``//``, ``.`` and ``..`` folded away, links unseen."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return tuple(kept)


def text_of(segments: Segments) -> str:
    """The absolute path of these parts."""
    return "/" + "/".join(segments)


def _real(path: str, physical: Physical) -> str:
    try:
        return physical(path)
    except (OSError, ValueError, RecursionError) as error:
        raise PathUnclear(f"the path can't be resolved: {error}") from None


def _unrooted(path: str, base: str | None) -> str:
    """``/proc/self/root/x`` is ``/x``, and ``/proc/self/cwd/x`` is ``x`` where we stand."""
    for _ in range(16):
        # Links are resolved from the left, so fold only what comes before the name in /proc.
        plain = re.sub(r"/(?:\./|/)+", "/", path)
        found = _PROC.match(plain)
        if not found:
            found = _PROC.match(text_of(lexical(plain)))
            if not found:
                return path
            plain = text_of(lexical(plain))
        rest = plain[found.end() :]
        if found[1] == "cwd" and base is None:
            raise PathUnclear("the path is relative to a working folder that nobody names")
        path = (base or "") + rest if found[1] == "cwd" else rest or "/"
    raise PathUnclear("the path runs through /proc again and again")


def _hosted(path: str, views: Sequence[View]) -> str:
    for seen, real in views:
        folder = seen.rstrip("/")
        if path == folder or path.startswith(folder + "/"):
            return real + path[len(folder) :]
    return path


def _forms(found: Sequence[Segments]) -> tuple[Segments, ...]:
    forms = dict.fromkeys(found)
    forms |= dict.fromkeys(
        tuple(unicodedata.normalize("NFC", part) for part in segments) for segments in found
    )
    return tuple(forms)
