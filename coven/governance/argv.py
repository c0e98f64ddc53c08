"""Comparing argument vectors with patterns of words. A word may be ``None``: not known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from coven.governance.globs import wildcard
from coven.governance.matchers import Finding, Word

Choices = tuple[tuple[str, ...], ...]
"""One entry per word; each lists the words that will do."""

_GLOBAL_VALUES = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path",
                      "--config-env", "--super-prefix", "--attr-source"}),
    "docker": frozenset({"-H", "--host", "-c", "--context", "-l", "--log-level", "--config"}),
    "podman": frozenset({"--connection", "-c", "--root", "--runroot", "--url"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "-s", "--server"}),
    "npm": frozenset({"--prefix", "--registry"}),
    "cargo": frozenset({"--config", "-Z", "-C", "--color"}),
}  # fmt: skip
"""Options that may stand between a program and its subcommand and take the next word."""


def prefix(argv: Sequence[Word], names: Sequence[str], pattern: Choices) -> Finding:
    """Whether the vector begins with the pattern. ``names`` are names of its program.

    Options between a program and its subcommand are looked through: ``git -C x push`` is a
    ``git push``.
    """
    if not argv:
        return Finding.NO
    if argv[0] is None:
        return Finding.POSSIBLE
    if not any(name in pattern[0] for name in names):
        return Finding.NO
    return max(_begins(rest, pattern[1:]) for rest in _readings(argv[1:], names))


def contains_all(argv: Sequence[Word], wanted: Choices) -> Finding:
    """Whether every wanted word stands among the arguments.

    ``*`` in a wanted word is a wildcard; ``-f`` also stands in ``-uf``, ``--x`` in ``--x=1``.
    """
    words = argv[1:]
    unknown = Finding.POSSIBLE if None in words else Finding.NO
    found = Finding.YES
    for choices in wanted:
        here = any(_is(word, choice) for word in words if word is not None for choice in choices)
        found = min(found, Finding.YES if here else unknown)
    return found


def joined(words: Sequence[Word]) -> str:
    """The known words, single-spaced."""
    return " ".join(word for word in words if word is not None)


def basename(word: str) -> str:
    """The last part of a path, trailing slashes aside."""
    return word.rstrip("/").rpartition("/")[2]


def program_names(word: Word) -> tuple[str, ...]:
    """A program as written and by its last part."""
    return () if word is None else tuple(dict.fromkeys((word, basename(word))))


def _begins(words: Sequence[Word], pattern: Choices) -> Finding:
    for place, choices in enumerate(pattern):
        if place >= len(words):
            return Finding.NO
        word = words[place]
        if word is None:  # it may become no word, one, or many, so nothing after it is certain
            return Finding.POSSIBLE
        if not any(_is(word, choice) for choice in choices):
            return Finding.NO
    return Finding.YES


def _readings(words: Sequence[Word], names: Sequence[str]) -> list[Sequence[Word]]:
    taking = next((_GLOBAL_VALUES[name] for name in names if name in _GLOBAL_VALUES), None)
    if taking is None:
        return [words]
    place = 0
    while place < len(words):
        word = words[place]
        if word is None or not word.startswith("-"):
            break
        place += 2 if word in taking else 1
    return [words, words[place:]]


def _is(word: str, choice: str) -> bool:
    if "*" in choice:
        return wildcard(choice).matches(word)
    if word == choice:
        return True
    if choice.startswith("--"):
        return word.startswith(choice + "=")
    if len(choice) == 2 and choice[0] == "-":
        return word[:1] == "-" and word[:2] != "--" and choice[1] in word[1:].partition("=")[0]
    return False
