"""What a page is given and what it gives back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from flask import Response
from pydantic import BaseModel, ValidationError

from coven.api_tokens import TokenScope
from coven.services import Services
from coven.store.engine import Tx
from coven.values import InstallationId
from webhooks.api import inputs
from webhooks.api.auth import Caller
from webhooks.api.context import Call, Outcome, Place
from webhooks.api.cursors import BadCursor, Cursors
from webhooks.api.problems import Problem, bad_field
from webhooks.dashboard.access import Access
from webhooks.receiver import Receiver

QueryT = TypeVar("QueryT", bound=BaseModel)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parts:
    """What all pages use. Made once per process."""

    services: Services
    cursors: Cursors
    receiver: Receiver


@dataclass(frozen=True, slots=True)
class Ask:
    """One request whose caller is known."""

    parts: Parts
    name: str
    access: Access
    caller: Caller
    installation: InstallationId | None
    """Whose data; None: of all installations, which only operators see."""
    path: Mapping[str, str]
    query: Mapping[str, str]
    """Parameters that say something."""
    form: Mapping[str, str]
    now: datetime

    @property
    def services(self) -> Services:
        return self.parts.services

    def may(self, scope: TokenScope) -> bool:
        """Whether this caller may do what ``scope`` is needed for."""
        return self.caller.may(scope)

    def read(self, model: type[QueryT]) -> QueryT:
        """The parameters as the API takes them. Raises ``Problem``."""
        known = {name: value for name, value in self.query.items() if name in model.model_fields}
        for name in ("since", "until"):
            if _DAY.match(known.get(name, "")):
                known[name] += "T00:00:00Z"
        return inputs.read_query(model, urlencode(known).encode())

    def body(self, model: type[QueryT], **values: object) -> QueryT:
        """A body as the API takes it. Raises ``Problem``."""
        try:
            return model.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(step) for step in first["loc"]) or "form"
            raise bad_field(name, first["msg"].removeprefix("Value error, ")) from None

    def call(self, tx: Tx, query: Any = None, body: Any = None, **path: str) -> Call[Any, Any]:
        """The same request for a handler of the API."""
        asked = query if query is not None else inputs.Query()
        return Call(
            self.services,
            tx,
            self.caller,
            self.installation,
            {**self.path, **path},
            asked,
            body if body is not None else inputs.NoBody(),
            self.place(asked),
        )

    def place(self, query: BaseModel) -> Place | None:
        """Where the list goes on. Raises ``Problem``."""
        cursor = getattr(query, "cursor", None)
        if cursor is None:
            return None
        try:
            return self.parts.cursors.read(self._question(query), cursor)
        except BadCursor:
            raise bad_field(
                "cursor", "is not one of this list; go to its first page", "bad_cursor"
            ) from None

    def next_page(self, query: BaseModel, found: Outcome) -> str | None:
        """The cursor after a page; None on the last one."""
        if found.next is None:
            return None
        return self.parts.cursors.write(self._question(query), found.next)

    def _question(self, query: BaseModel) -> str:
        filters = query.model_dump(mode="json", exclude={"cursor", "limit"})
        repos = sorted(repo.key for repo in self.caller.repos)
        return json.dumps([f"ops.{self.name}", self.installation, repos, filters], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Shown:
    """A page to render, and what the record says about it."""

    template: str
    context: dict[str, Any]
    rows: int | None = None
    target: str | None = None
    owner: InstallationId | None = None
    """Whose data it is, where the request named nobody."""


@dataclass(frozen=True, slots=True)
class Done:
    """Something was changed: where to go, and what to say there."""

    where: str
    text: str
    target: str | None = None
    rows: int | None = None
    owner: InstallationId | None = None
    after: tuple[Callable[[], object], ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """A file instead of a page."""

    response: Response
    target: str | None = None
    rows: int | None = None
    owner: InstallationId | None = None


View = Callable[[Ask, Tx], Shown | Done | Sent]
AloneView = Callable[[Ask], Done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One method of one path below ``/ops``."""

    path: str
    name: str
    view: View | AloneView
    method: Literal["GET", "POST"] = "GET"
    scope: TokenScope = TokenScope.READ
    operators: bool = False
    """For those who see all installations only."""
    alone: bool = False
    """The view makes its own transaction."""
    frequent: bool = False
    """Refreshes by itself: recorded once a minute with a count."""
    needs: str = ""
    """Names the part of the path that is an installation."""


def not_here() -> Problem:
    """The same for what does not exist and for what belongs to somebody else."""
    return Problem(404, "not_found", "There is nothing here that you may see.")
