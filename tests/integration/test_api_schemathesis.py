"""The API keeps to its own document, whatever is sent to it, with a token and without one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.api_kit import BASE, Api, shared_api
from webhooks.api.openapi import document
from webhooks.api.operations import OPERATIONS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
EXAMPLES = 6
LABELS = [f"{operation.method} {BASE}{operation.path}" for operation in OPERATIONS]


@pytest.fixture(scope="module")
def api(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with shared_api(_sqlite_file, tmp_path_factory.mktemp("schemathesis")) as made:
        yield made


def judged_by_schema(label: str, case: schemathesis.Case) -> bool:
    """Whether the schema says all: not what exists, whose cursor it is, or what a key is."""
    words = {"cursor", "prefix"} & set(case.query or {})
    return label.startswith("GET") and "{" not in label and not words


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("label", LABELS)
def test_every_answer_is_a_documented_one(api: Api, label: str, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_wsgi(f"{BASE}/openapi.json", api.app)
    found = (result.ok() for result in schema.get_all_operations())
    operation = next(each for each in found if each.label == label)
    tokens = [None, "cvn_x", api.admin(), api.admin(None)]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def examples(case: schemathesis.Case) -> None:
        for token in tokens:
            response = case.call(headers={"Authorization": f"Bearer {token}"} if token else {})
            checks = [*CHECKS]
            if mode is GenerationMode.NEGATIVE:
                checks.append(negative_data_rejection)
            elif token == api.admin() and judged_by_schema(label, case):
                checks.append(positive_data_acceptance)
            case.validate_response(response, checks=checks)

    examples()


def test_other_methods_are_refused_and_named(api: Api) -> None:
    for operation in OPERATIONS:
        url = BASE + re.sub(r"\{\w+\}", "0", operation.path)
        answer = api.client.open(url, method="PUT")
        assert answer.status_code == 405
        assert operation.method in answer.headers["Allow"]
        assert answer.mimetype == "application/problem+json"
        options = api.client.options(url)
        assert options.status_code == 200
        assert operation.method in options.headers["Allow"]


def test_every_operation_is_in_the_document() -> None:
    listed = {
        f"{method.upper()} {path}" for path, item in document()["paths"].items() for method in item
    }
    assert listed == set(LABELS)
