"""What a handler is given and what it gives back. Knows no web framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel

from coven.services import Services
from coven.store.engine import Tx
from coven.values import InstallationId
from webhooks.api.auth import Caller
from webhooks.api.problems import Problem
from webhooks.api.shapes import Answer

QueryT = TypeVar("QueryT", bound=BaseModel, covariant=True)
BodyT = TypeVar("BodyT", bound=BaseModel, covariant=True)

Place = list[object]


@dataclass(frozen=True, slots=True)
class Call(Generic[QueryT, BodyT]):
    """One request whose caller is known and whose input is checked."""

    services: Services
    tx: Tx
    caller: Caller
    installation: InstallationId | None
    """Whose data; None: of all installations, which only a service token sees."""
    path: dict[str, str]
    query: QueryT
    body: BodyT
    place: Place | None = None
    """Where the list goes on."""

    def one_installation(self) -> InstallationId:
        """Raises ``Problem`` when the caller has to name one."""
        if self.installation is None:
            raise Problem(
                400,
                "installation_id_required",
                "installation_id: name one; a service token sees all of them",
                field="installation_id",
            )
        return self.installation


@dataclass(frozen=True, slots=True)
class Outcome:
    """A good answer, and what to write into the audit about it."""

    answer: Answer
    rows: int | None = None
    target: str | None = None
    next: Place | None = None
    """Where the next page begins; the cursor is made from it."""
    after: tuple[Callable[[], object], ...] = ()
    """To be called once the transaction is through."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A good answer of JSON lines, made while they are sent."""

    lines: Iterator[bytes]
    target: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
