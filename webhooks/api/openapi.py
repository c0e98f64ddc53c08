"""The OpenAPI 3.1 document, made from the table of operations and the models they name."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from coven import __version__
from webhooks.api.operations import OPERATIONS, PREFIX, Operation
from webhooks.api.problems import MEDIA_TYPE
from webhooks.api.shapes import ProblemItem

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"
_MEANINGS = {
    304: "Nothing changed since the answer with that ETag",
    400: "A parameter or the body can't be used; `field` names it",
    401: "No token, or one that opens nothing",
    403: "The token may not do this",
    404: "Nothing here that this token may see",
    409: "Not in the state that this needs",
    413: "The body is too long",
    415: "The body is not JSON",
    422: "The rule can't be used; `detail` says why",
    429: "Too many refused tokens from this address",
    503: "The ledgers can't be reached, or the answer can't be recorded",
}
_PATH_NAMES = {
    "task_id": "32 hex digits",
    "delivery_id": "`X-GitHub-Delivery`",
    "entry_id": "`M-` and eight characters",
    "rule_id": "Such as `R001`",
    "escalation_id": "`E-` and eight characters",
}


def document() -> Json:
    """The whole document."""
    schemas = _schemas()
    paths: Json = {}
    for operation in OPERATIONS:
        item = paths.setdefault(f"{PREFIX}{operation.path}", {})
        item[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coven-github",
            "version": __version__,
            "description": "Reads and steers the ledgers of one server. Lists are newest first.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def document_bytes() -> bytes:
    """The document as it is served."""
    return (json.dumps(document(), indent=1, sort_keys=True) + "\n").encode()


def _schemas() -> Json:
    """Everything that answers and bodies are made of."""
    inputs: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    outputs: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ProblemItem, "serialization")]
    for operation in OPERATIONS:
        if operation.body is not None:
            inputs.append((operation.body, "validation"))
        for model in (operation.answer, operation.lines):
            if model is not None:
                outputs.append((model, "serialization"))
    _, found = models_json_schema([*dict.fromkeys([*inputs, *outputs])], ref_template=_REF)
    schemas: Json = found["$defs"]
    return schemas


def _operation(operation: Operation) -> Json:
    answer: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": _needs(operation),
        "tags": [operation.group],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation.query)],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        schema = {"$ref": _REF.format(model=operation.body.__name__)}
        needed = any(field.is_required() for field in operation.body.model_fields.values())
        answer["requestBody"] = {
            "required": needed,
            "content": {"application/json": {"schema": schema}},
        }
    return answer


def _needs(operation: Operation) -> str:
    if operation.signed:
        return (
            "Needs the operator's signature over the request in `X-Coven-Operator-*` headers, and "
            "the epoch of the rules in `If-Match`; no token opens it."
        )
    return f"Needs the scope `{operation.scope}`."


def _path_parameters(operation: Operation) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_NAMES[name],
            "schema": {"type": "string"},
        }
        for name in operation.parameters
    ]


def _query_parameters(model: type[BaseModel]) -> list[Json]:
    found = model.model_json_schema(ref_template="{model}")
    defs = found.get("$defs", {})
    parameters = []
    for name, schema in found.get("properties", {}).items():
        parameter: Json = {
            "name": name,
            "in": "query",
            "required": name in found.get("required", ()),
        }
        if "description" in schema:
            parameter["description"] = schema["description"]
        parameter["schema"] = _plain(schema, defs)
        parameters.append(parameter)
    return parameters


def _plain(schema: Json, defs: Json) -> Json:
    """A parameter's schema by itself: null means to leave it out, and names are filled in."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    kind = kinds[0]
    if "$ref" in kind:
        kind = defs[kind["$ref"]]
    left_out = {"title", "description", "anyOf", "$ref"}
    plain = {key: value for key, value in kind.items() if key not in left_out}
    if schema.get("default") is not None:
        plain["default"] = schema["default"]
    return plain


def _responses(operation: Operation) -> Json:
    if operation.answer is not None:
        media = "application/json"
        schema: Json = {"$ref": _REF.format(model=operation.answer.__name__)}
    else:
        line = operation.lines.__name__ if operation.lines is not None else "object"
        media, schema = (
            "application/x-ndjson",
            {"type": "string", "description": f"One {line} a line"},
        )
    good: Json = {"description": "The answer", "content": {media: {"schema": schema}}}
    answers: Json = {"200": good}
    statuses = {400, 401, 403, 429, 503, *operation.problems}
    if operation.body is not None:
        statuses |= {413, 415}
    if operation.method == "GET" and operation.answer is not None:
        header = {"description": "Send it as If-None-Match", "schema": {"type": "string"}}
        good["headers"] = {"ETag": header}
        answers["304"] = {"description": _MEANINGS[304]}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=ProblemItem.__name__)}}}
    for status in sorted(statuses):
        answers[str(status)] = {"description": _MEANINGS[status], "content": problem}
    return answers
