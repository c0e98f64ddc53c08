from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from coven.contract import examples, schemas
from coven.contract.brief import parse
from coven.contract.result import Result

DOCS = Path(__file__).parents[2] / "docs"
RESULT = Draft202012Validator(schemas.schema(Result, "result", "result"))


@pytest.mark.parametrize("name", sorted(schemas.documents()))
def test_the_published_documents_equal_the_models(name: str) -> None:
    hint = f"{name} has drifted: run python -m coven.contract.schemas"
    assert (DOCS / name).read_text("utf-8") == schemas.documents()[name], hint


def test_check_reports_drift_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert schemas.main([str(tmp_path)]) == 0
    assert schemas.main([str(tmp_path), "--check"]) == 0
    example = tmp_path / "contracts" / "result.example.json"
    example.write_text("{}")
    assert schemas.main([str(tmp_path), "--check"]) == 1
    assert "result.example.json" in capsys.readouterr().err
    assert example.read_text() == "{}"


@pytest.mark.parametrize("name", ["session-brief", "result"])
def test_the_golden_examples_validate_and_round_trip(name: str) -> None:
    schema = json.loads((DOCS / "contracts" / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    raw = (DOCS / "contracts" / f"{name}.example.json").read_bytes()
    Draft202012Validator(schema).validate(json.loads(raw))
    if name == "result":
        assert Result.model_validate_json(raw) == examples.result()
    else:
        assert parse(raw) == examples.brief()


def test_every_object_of_the_schemas_is_closed() -> None:
    for name in ("session-brief", "result"):
        schema = json.loads((DOCS / "contracts" / f"{name}.schema.json").read_text())
        for node in (schema, *schema["$defs"].values()):
            assert node.get("additionalProperties") is False


REPLACEMENTS = st.sampled_from(
    [None, "", " ", "x", 0, 1, -1, True, [], {}, ["a"], "success", "failure", "partial",
     "needs_input", "none", "pull_request", "complete", "missing", "not_applicable",
     "infra_error", "main", "a b", "-x", "deadbeef", 2, "2"]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [place for key, item in items for place in ((*path, key), *places(item, (*path, key)))]


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_schema_and_model_agree_on_changed_results(data: st.DataObject) -> None:
    document = copy.deepcopy(examples.result().model_dump(mode="json"))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(data.draw(REPLACEMENTS))
    if document.get("memory_used", 0) is None:
        del document["memory_used"]
    try:
        Result.model_validate_json(json.dumps(document))
        accepted = True
    except ValidationError:
        accepted = False
    assert RESULT.is_valid(document) == accepted
