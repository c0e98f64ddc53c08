"""GitHub's own description of its answers, as validators.

The committed cut (``tests/fixtures/openapi/github-rest.json``) holds the operations that the
sandbox serves, without descriptions and examples. :func:`cut` makes it from a full description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

COMMITTED = Path(__file__).parents[1] / "fixtures" / "openapi" / "github-rest.json"
FULL = Path(__file__).parents[3] / "shared" / "github-rest-openapi.json"
NOISE = {"description", "example", "examples", "externalDocs", "x-github", "x-octokit", "title"}
SCHEMA_MAPS = ("properties", "patternProperties", "schemas")


def load(path: Path) -> dict[str, Any]:
    """A description from disk."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def template(path: str, templates: Iterable[str]) -> str | None:
    """The path template that a concrete path belongs to; the most literal one wins."""
    found = []
    for one in templates:
        # What may hold slashes on GitHub: the last parameter of these families.
        wide = re.sub(r"\\{(?:path|ref|branch|basehead)\\}$", ".+", re.escape(one))
        wide = re.sub(r"\\{ref\\}", ".+", wide)
        if re.fullmatch(re.sub(r"\\{[^}]+\\}", "[^/]+", wide), path):
            found.append(one)
    return min(found, key=lambda t: (t.count("{"), -len(t)), default=None)


def modern(schema: Any) -> Any:
    """OpenAPI 3.0 as JSON Schema: ``nullable`` becomes a type or an alternative."""
    if isinstance(schema, list):
        return [modern(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {key: modern(value) for key, value in schema.items() if key != "nullable"}
    if schema.get("nullable") is True:
        kind = shown.get("type")
        if isinstance(kind, str):
            shown["type"] = [kind, "null"]
            if "enum" in shown and None not in shown["enum"]:
                shown["enum"] = [*shown["enum"], None]
        return {"anyOf": [shown, {"type": "null"}]}
    return shown


class Description:
    """One OpenAPI description, ready to judge answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        components = modern(document["components"])
        resource = Resource(contents={"components": components}, specification=DRAFT202012)
        self._registry = Registry().with_resource("urn:github", resource)

    def operation(self, method: str, path: str) -> tuple[str, dict[str, Any]] | None:
        """Template and operation of a request."""
        usable = [p for p, ops in self.document["paths"].items() if method.lower() in ops]
        found = template(path, usable)
        if found is None:
            return None
        return found, self.document["paths"][found][method.lower()]

    def problems(self, method: str, path: str, status: int, data: Any) -> list[str]:
        """What GitHub's description has against an answer; empty is good."""
        known = self.operation(method, path)
        if known is None:
            return [f"{method} {path}: not in the description"]
        where, operation = known
        response = operation["responses"].get(str(status))
        if response is None:
            return [f"{method} {where}: {status} is not described"]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].split("/")[-1]]
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            return [] if data is None else [f"{method} {where}: {status} should have no body"]
        text = json.dumps(modern(schema)).replace('"#/', '"urn:github#/')
        validator = Draft202012Validator(
            json.loads(text), registry=self._registry, format_checker=FormatChecker()
        )
        return [
            f"{method} {where}: {'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
            for e in validator.iter_errors(data)
        ]


@lru_cache
def committed() -> Description:
    """The cut in this repository."""
    return Description(load(COMMITTED))


@lru_cache
def full() -> Description | None:
    """A full description beside the checkout, if there is one."""
    return Description(load(FULL)) if FULL.exists() else None


def cut(document: dict[str, Any], operations: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Only these operations, with what they refer to and without prose."""
    paths: dict[str, Any] = {}
    for method, path in operations:
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is None:
            continue
        kept = {key: operation[key] for key in ("operationId", "responses") if key in operation}
        paths.setdefault(path, {})[method.lower()] = _quiet(kept)
    components: dict[str, dict[str, Any]] = {"schemas": {}, "responses": {}}
    waiting = _references(paths)
    while waiting:
        kind, name = waiting.pop()
        if kind in components and name not in components[kind]:
            components[kind][name] = _quiet(document["components"][kind][name])
            waiting |= _references(components[kind][name])
    return {
        "openapi": document["openapi"],
        "info": {key: document["info"][key] for key in ("title", "version", "license")},
        "paths": dict(sorted(paths.items())),
        "components": {kind: dict(sorted(found.items())) for kind, found in components.items()},
    }


def _references(node: Any) -> set[tuple[str, str]]:
    found = re.findall(r'"#/components/(\w+)/([^"]+)"', json.dumps(node))
    return {(kind, name) for kind, name in found if kind in ("schemas", "responses")}


def _quiet(node: Any, names: bool = False) -> Any:
    """Without prose; ``names`` says that the keys are names and not keywords."""
    if isinstance(node, list):
        return [_quiet(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _quiet(value, names=not names and key in SCHEMA_MAPS)
        for key, value in node.items()
        if names or key not in NOISE
    }
