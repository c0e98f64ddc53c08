"""Addresses of memory entries, and the prefixes by which they are inspected and revoked.

``repo/<owner>/<name>/<namespace>/<key>`` and ``tenant/<installation_id>/<namespace>/<key>``; a key
may have further segments. Source: memory contract, "Addressability". Whatever is written in a
second way that could name the same place, or looks like something else, is refused, not mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from coven.values import RepoName

MAX_CHARS = 200
"""Longest part below the owner, whose name may become longer. Keys are ASCII: one byte each."""
WHOLE_CHARS = 420
"""Room for a whole key or prefix: the longest owner and what may stand below it."""

# Left out of printable ASCII: space, "%" and "\\" (second spellings), "?", "#" (ends of a URL
# path), quotes, "<", ">", "|", "`", "*" (wildcards and markup), "[" and "]" (masks).
_SEGMENT = re.compile(r"[A-Za-z0-9!$&()+,\-.:;=@^_{}~]+\Z")
_INSTALLATION = re.compile(r"[1-9][0-9]{0,17}\Z")

Head = Literal["repo", "tenant"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is: one repository, or everything of one installation."""

    repo: RepoName | None = None
    installation_id: int | None = None

    def __post_init__(self) -> None:
        if (self.repo is None) == (self.installation_id is None):
            raise ValueError("memory belongs to a repository or to an installation")

    def __str__(self) -> str:
        if self.repo is not None:
            return f"repo/{self.repo.key}"
        return f"tenant/{self.installation_id}"


@dataclass(frozen=True, slots=True)
class MemoryKey:
    """A parsed key. Owner and name compare as GitHub does; all else is exact."""

    owner: Owner
    namespace: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> MemoryKey:
        """Raises ``ValueError``, which says what is wrong with it."""
        owner, rest = _split(text)
        if len(rest) < 2:
            raise ValueError("a memory key names a namespace and a key below its owner")
        return cls(owner, rest[0], rest[1:])

    def __str__(self) -> str:
        """The one spelling, with owner and name in lower case."""
        return "/".join((str(self.owner), self.namespace, *self.path))


@dataclass(frozen=True, slots=True)
class KeyPrefix:
    """Everything at and below one place: an owner, a namespace, or a key."""

    owner: Owner
    below: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> KeyPrefix:
        """Reads ``repo/o/r``, ``repo/o/r/``, ``repo/o/r/*`` and deeper ones alike.

        Raises ``ValueError``; nothing is broader than one repository or one installation.
        """
        for ending in ("/*", "/"):
            if text.endswith(ending):
                text = text[: -len(ending)]
                break
        return cls(*_split(text))

    def covers(self, key: MemoryKey) -> bool:
        """By whole segments, so that ``repo/o/r`` never covers ``repo/o/r2``."""
        parts = (key.namespace, *key.path)
        return self.owner == key.owner and parts[: len(self.below)] == self.below

    def __str__(self) -> str:
        return "/".join((str(self.owner), *self.below))


def _split(text: str) -> tuple[Owner, tuple[str, ...]]:
    segments = text.split("/")
    for segment in segments:
        if not segment:
            raise ValueError("a memory key has no empty segment")
        if not _SEGMENT.match(segment):
            raise ValueError(
                f"a memory key is made of plain ASCII without spaces, %, \\, *, quotes or "
                f"brackets; segment {segment[:40]!a} is not"
            )
        if segment.endswith("."):
            raise ValueError('no segment of a memory key is ".", ".." or ends with a dot')
    head, rest = segments[0], segments[1:]
    if head == "repo" and len(rest) >= 2:
        try:
            owner, below = Owner(repo=RepoName(rest[0], rest[1])), tuple(rest[2:])
        except ValueError:
            raise ValueError("a memory key names its repository as repo/<owner>/<name>") from None
    elif head == "tenant" and rest:
        if not _INSTALLATION.match(rest[0]):
            raise ValueError("a memory key names its installation as tenant/<installation id>")
        owner, below = Owner(installation_id=int(rest[0])), tuple(rest[1:])
    else:
        raise ValueError(
            "a memory key begins with repo/<owner>/<name>/ or tenant/<installation id>/"
        )
    if (length := len("/".join(below))) > MAX_CHARS:
        raise ValueError(
            f"a memory key has at most {MAX_CHARS} characters below its owner, this one {length}"
        )
    return owner, below
