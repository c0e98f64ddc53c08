"""What an admin action did, and the events that it is on GitHub."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coven.sandbox.hub import Event


@dataclass
class Outcome:
    """``events`` are sent when the caller asks for delivery."""

    result: Any
    events: list[Event] = field(default_factory=list)
