"""What is revoked, as a short list of prefixes for a policy. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from coven.memory.keys import KeyPrefix

DENIED_MAX = 1_000
"""Most prefixes that one policy carries."""


def folded(prefixes: Iterable[KeyPrefix], most: int = DENIED_MAX) -> tuple[str, ...]:
    """The same places in as few prefixes as possible, sorted.

    When more than ``most`` remain, the fullest places are denied as a whole: too much is denied
    then, which is the safe side; lifting what is not needed any more undoes it.
    """
    kept = _without_covered(prefixes)
    while len(kept) > most:
        parents = Counter(_parent(prefix) for prefix in kept if prefix.below)
        if not parents:
            break  # Whole owners only: there is nothing above them.
        kept = _without_covered([*kept, *_fullest(parents, len(kept) - most)])
    return tuple(str(prefix) for prefix in kept)


def _fullest(parents: Counter[KeyPrefix], excess: int) -> list[KeyPrefix]:
    """Places to close as a whole so that ``excess`` prefixes fewer remain, if that can be."""
    full = [parent for parent, count in parents.items() if count > 1]
    if not full:
        # None has two: the deepest go one step up, where they may meet.
        depth = max(len(parent.below) for parent in parents)
        return [parent for parent in parents if len(parent.below) == depth]
    chosen = []
    for parent in sorted(full, key=lambda each: (-parents[each], -len(each.below), str(each))):
        chosen.append(parent)
        excess -= parents[parent] - 1
        if excess <= 0:
            break
    return chosen


def _without_covered(prefixes: Iterable[KeyPrefix]) -> list[KeyPrefix]:
    kept: set[KeyPrefix] = set()
    for prefix in sorted(set(prefixes), key=lambda each: len(each.below)):
        above = (KeyPrefix(prefix.owner, prefix.below[:n]) for n in range(len(prefix.below)))
        if not any(each in kept for each in above):
            kept.add(prefix)
    return sorted(kept, key=str)


def _parent(prefix: KeyPrefix) -> KeyPrefix:
    return KeyPrefix(prefix.owner, prefix.below[:-1])
