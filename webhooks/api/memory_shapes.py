"""What the memory part of the API takes and gives: parameters, bodies and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from coven.memory.book import Decision, Entry, EntryState, shown
from coven.memory.keys import WHOLE_CHARS, KeyPrefix
from coven.store import book
from webhooks.api import inputs, shapes

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Target = Annotated[str, Field(min_length=1, max_length=WHOLE_CHARS)]


def _prefix(value: str) -> str:
    KeyPrefix.parse(value)
    return value


class MemoryQuery(inputs.Paged):
    repo: inputs.Repo | None = None
    scope: Literal["repo", "tenant_shared"] | None = None
    state: EntryState | None = None
    prefix: Annotated[str, Field(max_length=WHOLE_CHARS), AfterValidator(_prefix)] | None = Field(
        default=None, description="A key or what it begins with, by whole segments."
    )
    task: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = Field(
        default=None, description="Proposed by this task."
    )
    q: inputs.Text | None = Field(default=None, description="In text or key.")


class ExportQuery(inputs.Scoped):
    repo: inputs.Repo | None = None
    state: EntryState | None = None


class ActivityQuery(inputs.Paged):
    repo: inputs.Repo | None = None


class DecideBody(inputs.Body):
    installation_id: inputs.BodyId | None = None
    text_hash: Hash = Field(description="`textHash` of the entry as it was shown.")


class UnshareBody(inputs.Body):
    installation_id: inputs.BodyId | None = None


def _either(given: str, other: str) -> dict[str, Any]:
    kinds = {given: {"type": "string"}, other: {"type": "null"}}
    return {"required": [given], "properties": kinds}


class RevokeBody(inputs.Body):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [_either("key", "prefix"), _either("prefix", "key")]}
    )

    installation_id: inputs.BodyId | None = None
    repo: inputs.Repo | None = None
    key: Target | None = Field(default=None, description="A key, or the id of an entry.")
    prefix: Target | None = Field(default=None, description="Everything at and below it.")

    @model_validator(mode="after")
    def _one_target(self) -> RevokeBody:
        if (self.key is None) == (self.prefix is None):
            raise ValueError("give either key or prefix")
        return self


class MemoryItem(shapes.Shape):
    id: str
    installation_id: int
    key: str
    scope: str
    repo: str | None
    repo_id: int | None
    summary: str
    shown: str
    """The text with everything that hides made visible."""
    text_hash: str
    state: EntryState
    version: int
    source: str
    trust: str
    task_id: str | None
    head_sha: str | None
    thread: int | None
    familiar_id: str | None
    actor: str | None
    author: str | None
    decided_by: str | None
    decided_at: datetime | None
    replaced_by: str | None
    redacted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    supplied: int
    cited: int
    last_cited_at: datetime | None


class DecisionItem(shapes.Shape):
    act: str
    target: str
    text_hash: str | None
    by: str | None
    task_id: str | None
    detail: str | None
    at: datetime


class MemoryAnswer(shapes.Page):
    memory: list[MemoryItem]


class EntryAnswer(shapes.Answer):
    entry: MemoryItem
    decisions: list[DecisionItem]
    runs: list[shapes.ActivityItem]


class ActivityAnswer(shapes.Page):
    activity: list[shapes.ActivityItem]


class ExportLine(MemoryItem):
    decisions: list[DecisionItem]


class DecideAnswer(shapes.Answer):
    id: str
    state: EntryState
    fresh: bool


class RevokeAnswer(shapes.Answer):
    revoked: str
    entries: list[str]
    fresh: bool


def memory_item(each: Entry) -> MemoryItem:
    """An entry with where it comes from."""
    return MemoryItem.model_validate(_facts(book.exported(each)))


def export_line(values: dict[str, Any]) -> ExportLine:
    """An entry of the book's export."""
    decisions = [_logged(line) for line in values["decisions"]]
    return ExportLine.model_validate(_facts(values) | {"decisions": decisions})


def _facts(values: dict[str, Any]) -> dict[str, Any]:
    """Plain data of the book under the names of the API."""
    renamed = {
        "shown": shown(values["summary"]),
        "actor": values["actor_login"],
        "author": values["author_login"],
        "decided_by": values["decided_by_login"],
    }
    known = MemoryItem.model_fields
    return {name: value for name, value in values.items() if name in known} | renamed


def _logged(line: dict[str, Any]) -> dict[str, Any]:
    known = DecisionItem.model_fields
    return {name: value for name, value in line.items() if name in known} | {"by": line["by_login"]}


def decision_item(each: Decision) -> DecisionItem:
    """A line of the book's log."""
    return DecisionItem(
        act=each.act.value,
        target=each.target,
        text_hash=each.text_hash,
        by=each.by_login,
        task_id=each.task_id,
        detail=each.detail,
        at=each.at,
    )
