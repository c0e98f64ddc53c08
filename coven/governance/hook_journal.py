"""The verdicts on tool calls of one session: lines that each hold the hash of the one before.

The session's own user writes it, so it proves that nothing was *lost by accident*, and that what
the worker wrote at the start is still there. What a hostile session may do to it is stated in
``docs/governance-hook.md``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coven.governance.strict_json import JsonRefused, canonical, loads

MAX_BYTES = 64 * 2**20
"""A journal that is longer takes no more verdicts, so nothing is allowed any more."""


class JournalUnusable(Exception):
    """No verdict can be written down, so none is given."""


@dataclass(frozen=True)
class Reading:
    """What a journal says after the session."""

    entries: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None
    """Why it is not complete; None when it is."""


def opening(session: str) -> bytes:
    """The first line: written by the worker, with a name that the session can't guess before."""
    return _line({"opened": session}, "")


def append(path: str, entry: Mapping[str, Any]) -> None:
    """Write one verdict down for good. Raises ``JournalUnusable``."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise JournalUnusable(f"the journal can't be opened ({error.strerror})") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        if not 0 < size < MAX_BYTES:
            raise JournalUnusable("the journal is not the one that the worker made, or is full")
        os.write(handle, _line(entry, _last_hash(handle, size)))
        os.fsync(handle)
    except (OSError, JsonRefused) as error:
        raise JournalUnusable(f"the journal can't be written ({error})") from error
    finally:
        os.close(handle)


def use_up(path: str, approval: str) -> bool:
    """Use an approval; False when this session did before. Raises ``JournalUnusable``.

    A file beside the journal, made by whoever comes first: calls may come at the same time.
    """
    try:
        os.close(os.open(f"{path}.{approval}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise JournalUnusable(f"an approval can't be used ({error.strerror})") from error
    return True


def last(path: str) -> Mapping[str, Any]:
    """The newest line. Raises ``JournalUnusable``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise JournalUnusable(f"the journal can't be opened ({error.strerror})") from error
    try:
        value = loads(_last_line(handle, os.fstat(handle).st_size))
    except (OSError, JsonRefused) as error:
        raise JournalUnusable(f"the journal can't be read ({error})") from error
    finally:
        os.close(handle)
    return value if isinstance(value, dict) else {}


def read(data: bytes, session: str) -> Reading:
    """Check and read a journal. Lines that do not follow from each other are not taken."""
    lines = data.split(b"\n")
    first = opening(session)
    if not data.startswith(first):
        return Reading(problem="the journal is not the one that the worker made")
    entries: list[Mapping[str, Any]] = []
    before = _hash_of(lines[0])
    problem = None if lines[-1] == b"" else "the last line of the journal is cut off"
    for line in lines[1:-1]:
        try:
            value = loads(line)
        except JsonRefused:
            value = None
        if not isinstance(value, dict) or value.get("before") != before:
            problem = f"line {len(entries) + 2} of the journal does not follow from the one before"
            break
        before = _hash_of(line)
        entries.append({name: item for name, item in value.items() if name != "before"})
    return Reading(tuple(entries), problem)


def _line(entry: Mapping[str, Any], before: str) -> bytes:
    return canonical({**entry, "before": before}) + b"\n"


def _hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _last_hash(handle: int, size: int) -> str:
    return _hash_of(_last_line(handle, size))


def _last_line(handle: int, size: int) -> bytes:
    """The last whole line, read from the end. Raises ``JournalUnusable``."""
    data, at = b"", size
    while at > 0:
        step = min(65536, at)
        at -= step
        data = os.pread(handle, step, at) + data
        if not data.endswith(b"\n"):
            raise JournalUnusable("the last line of the journal is cut off")
        start = data[:-1].rfind(b"\n")
        if start >= 0:
            return data[start + 1 : -1]
    return data[:-1]


__all__ = ["JournalUnusable", "Reading", "append", "last", "opening", "read", "use_up"]
