"""``docs/api.md`` lists what the API can do, as the document has it."""

from __future__ import annotations

from pathlib import Path

from coven.api_tokens import TokenScope
from webhooks.api.openapi import document
from webhooks.api.operations import OPERATIONS, PREFIX

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
START, END = "<!-- operations -->\n", "<!-- /operations -->"


def table() -> str:
    """The table as it should stand in the documentation."""
    rows = ["| | path | scope | what |", "|---|---|---|---|"]
    for operation in OPERATIONS:
        said = document()["paths"][PREFIX + operation.path][operation.method.lower()]
        scope = "signature" if operation.signed else f"`{operation.scope}`"
        rows.append(f"| {operation.method} | `{operation.path}` | {scope} | {said['summary']} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_operations_is_the_one_of_the_code() -> None:
    shown = TEXT.partition(START)[2].partition(END)[0]
    assert shown == table(), f"docs/api.md: put this between the marks:\n{table()}"


def test_every_scope_is_explained() -> None:
    for scope in TokenScope:
        assert f"| `{scope}` |" in TEXT


def test_every_operation_has_a_summary_and_a_group() -> None:
    for operation in OPERATIONS:
        assert operation.summary
        assert operation.group
        assert operation.answer is not None or operation.lines is not None
