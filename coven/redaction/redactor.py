"""The one redactor: live values first, then shapes, then places, on every reading of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coven.redaction.live import LiveValues
from coven.redaction.shapes import find_shapes
from coven.redaction.spans import MASK, Span, merge, outside_masks, replace
from coven.redaction.structure import find_structures
from coven.redaction.views import readings, unwrapped

if TYPE_CHECKING:
    from coven.redaction.stream import StreamRedactor

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""What ``json.loads`` gives."""

_PASSES = 4
_MAX_DEPTH = 200
_SECRET_KEY = re.compile(
    r"(?i)(?:.*[_\-. ])?(?:authorization|passw(?:or)?d|passphrase|secret|token|api[_\-]?key"
    r"|private[_\-]?key|access[_\-]?key|credentials?|cookie|pem)"
)


class Redactor:
    """Masks secrets. Immutable, so that it can be shared between threads.

    ``live`` are values that we hold (tokens, keys); shorter than 8 characters they are ignored.
    """

    def __init__(self, live: Iterable[str] = ()) -> None:
        self._live = LiveValues(live)

    def with_live(self, *values: str) -> Redactor:
        """A copy that also masks ``values``."""
        return Redactor(self._live.values | set(values))

    def text(self, s: str) -> str:
        """``s`` with every secret replaced by ``MASK``: linear in time, idempotent.

        Cutting a secret out can bring its surroundings together as something new to mask, so the
        result is searched again; what does not settle is masked whole.
        """
        for _ in range(_PASSES):
            spans = self.spans(s)
            if not spans:
                return s
            s = replace(s, spans)
        return MASK if self.spans(s) else s

    def has_secret(self, s: str) -> bool:
        """Whether ``text`` would change ``s``."""
        return bool(self.spans(s))

    def tree(self, value: JSON) -> JSON:
        """A copy with all strings and keys masked, and every string under a secret's name."""
        return self._tree(value, 0)

    def stream(self) -> StreamRedactor:
        """A redactor for bytes that come in pieces."""
        from coven.redaction.stream import StreamRedactor  # the two know each other

        return StreamRedactor(self)

    def spans(self, s: str) -> list[Span]:
        """What would be masked, merged and in order; masks that are there already don't count."""
        return merge(outside_masks(s, merge(self._find(s))))

    def _find(self, s: str) -> Iterator[Span]:
        for view in readings(s):
            for span in self._live.find(view.text):
                yield view.original(span)
            if self._live and (joined := unwrapped(view)) is not None:
                for span in self._live.find(joined.text, wrapped=True):
                    yield joined.original(span)
            for span in find_shapes(view.text):
                yield view.original(span)
            for span in find_structures(view.text):
                yield view.original(span)

    def _tree(self, value: JSON, depth: int) -> JSON:
        if depth > _MAX_DEPTH:
            return MASK
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): MASK
                if isinstance(item, str) and item and _SECRET_KEY.fullmatch(str(key))
                else self._tree(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, Sequence):
            return [self._tree(item, depth + 1) for item in value]
        return value
