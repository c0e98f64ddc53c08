"""``.github/coven.yml``: what a repository asks for itself. Pure.

Read from the default branch. It only narrows what the operator allows: it can switch lanes off
and name fewer familiars. The text is hostile: size, nesting and aliases are bounded before
anything is built from it, and a key may stand only once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

PATH = ".github/coven.yml"
MAX_BYTES = 16_384
MAX_DEPTH = 8
MAX_PROBLEMS = 10


class Lanes(BaseModel):
    """Lanes that the repository wants off; ``true`` changes nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    assignment: bool = Field(default=True, description="Start when an issue is assigned.")
    labels: bool = Field(default=True, description="Start when a trigger label is set.")
    commands: bool = Field(default=True, description="Start on commands in comments.")
    reviews: bool = Field(default=True, description="Review pull requests without being asked.")


class RepoFile(BaseModel):
    """The schema of ``.github/coven.yml``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: int = Field(default=1, ge=1, le=1, description="Version of this format.")
    enabled: bool = Field(default=True, description="false: no lane starts anything here.")
    lanes: Lanes = Field(default=Lanes(), description="Lanes to switch off.")
    familiars: tuple[str, ...] | None = Field(
        default=None, max_length=20, description="Only these of the familiars that serve here."
    )

    def allows(self, lane: str) -> bool:
        """Whether the repository leaves a lane on."""
        return self.enabled and bool(getattr(self.lanes, lane))

    def wants(self, familiar_id: str) -> bool:
        """Whether the repository lets a familiar serve it."""
        return self.familiars is None or familiar_id in self.familiars


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file; ``line`` counts from 1 and is None for the whole file."""

    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read: its content, or what is wrong with it."""

    file: RepoFile | None
    problems: tuple[Problem, ...] = ()


class _Refused(Exception):
    def __init__(self, text: str, line: int | None) -> None:
        super().__init__(text)
        self.problem = Problem(text, line)


class _StrictLoader(yaml.SafeLoader):
    """Safe types only, no aliases, tags or merges, bounded depth, each key once."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("aliases are not allowed", line)
        if getattr(event, "tag", None) is not None:
            raise _Refused("tags are not allowed", line)
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise _Refused("is nested too deeply", line)
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise _Refused("keys must be words; put quotes around this one", line)
            if key in seen:
                raise _Refused(f"the key {key[:40]!r} stands here twice", line)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads `on`, `yes` and `no` as booleans; only `true` and `false` are here. Dates and
# numbers in odd bases stay texts, which the schema then refuses by name.
_StrictLoader.yaml_implicit_resolvers = {}
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf")
)
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^(?:0|[1-9][0-9]{0,8})$"), list("0123456789")
)
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|)$"), ["~", "n", ""]
)


@lru_cache(maxsize=512)
def read(data: bytes) -> Read:
    """The content of a file, or its problems; equal files are read once.

    Never raises for what is in it.
    """
    if len(data) > MAX_BYTES:
        return Read(None, (Problem(f"is larger than {MAX_BYTES} bytes"),))
    try:
        text = data.decode("utf-8-sig")
        loader = _StrictLoader(text)
        try:
            content = loader.get_single_data()
        finally:
            loader.dispose()
    except _Refused as refused:
        return Read(None, (refused.problem,))
    except UnicodeDecodeError:
        return Read(None, (Problem("is not UTF-8 text"),))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = (error.problem or error.context or "can't be read")[:200]
        return Read(None, (Problem(f"is no valid YAML: {what}", mark.line + 1 if mark else None),))
    except (yaml.YAMLError, ValueError, RecursionError):
        return Read(None, (Problem("is no valid YAML"),))
    if content is None:
        return Read(RepoFile())
    try:
        return Read(RepoFile.model_validate_json(json.dumps(content)))
    except ValidationError as error:
        return Read(None, tuple(_problem(text, item) for item in error.errors()[:MAX_PROBLEMS]))


def _problem(text: str, item: Any) -> Problem:
    steps = [str(step) for step in item["loc"]]
    where = ".".join(steps)[:80] or "the file"
    what = "is no known key" if item["type"] == "extra_forbidden" else item["msg"]
    return Problem(f"{where}: {what}", _line_of(text, steps))


def _line_of(text: str, steps: list[str]) -> int | None:
    names = [step for step in steps if not step.isdigit()]
    for number, line in enumerate(text.splitlines(), 1):
        if names and line.strip().partition(":")[0].strip("'\" ") == names[-1]:
            return number
    return None


def schema() -> dict[str, Any]:
    """The JSON schema that is committed for editors."""
    return RepoFile.model_json_schema() | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": PATH,
    }
