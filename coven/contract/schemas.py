"""JSON Schemas, golden examples and the exit matrix, written from the models and the table.

``python -m coven.contract.schemas [FOLDER]`` writes them (FOLDER is ``docs`` by default);
``--check`` writes nothing and exits 1 when a file differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coven.contract import examples
from coven.contract.base import Closed
from coven.contract.brief import SessionBrief, to_json
from coven.contract.exit_codes import TABLE, Ending, Envelope
from coven.contract.result import Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents() -> Mapping[str, str]:
    """Every generated file, by its path below the documentation folder."""
    return {
        "contracts/session-brief.schema.json": _pretty(
            schema(SessionBrief, "session-brief", "Input of a headless session: a tokenless brief.")
        ),
        "contracts/result.schema.json": _pretty(
            schema(Result, "result", "Output of a headless session: the terminal state of a task.")
        ),
        "contracts/session-brief.example.json": _pretty(to_json(examples.brief())),
        "contracts/result.example.json": _pretty(examples.result().model_dump(mode="json")),
        "exit-matrix.md": exit_matrix(),
    }


def schema(model: type[Closed], name: str, description: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a contract model, with the rules across fields."""
    body = model.model_json_schema()
    _drop_titles(body)
    _tighten(body)
    return {
        "$schema": DIALECT,
        "$id": f"urn:coven-github:contract:2:{name}",
        "title": f"{name} (contract v2)",
        **body,
        "description": description,
    }


def exit_matrix() -> str:
    """The exit matrix as a Markdown page."""
    lines = [
        "# Exit matrix",
        "",
        "What an attempt comes to, by how the process ended and what the result file holds. The",
        "exit code decides; a result that contradicts it is shown as a contract violation. This",
        "page is generated from `coven/contract/exit_codes.py`: run",
        "`python -m coven.contract.schemas` after a change there.",
        "",
        "The facts count from top to bottom: our own stop comes before a limit, a limit before the",
        "deadline, the deadline before a signal, a signal before the exit code.",
        "",
        "| end of the process | result file | outcome | retry | conclusion | opens a PR |",
        "|---|---|---|---|---|---|",
    ]
    order = list(Ending)
    kinds = list(Envelope)
    for ending, envelope in sorted(
        TABLE, key=lambda key: (order.index(key[0]), kinds.index(key[1]))
    ):
        row = TABLE[ending, envelope]
        lines.append(
            f"| {ending.value} | {envelope.value} | {row.outcome} "
            f"| {'yes' if row.retry else 'no'} | {row.conclusion} "
            f"| {'yes' if row.opens_pr else 'no'} |"
        )
    lines += [
        "",
        "- *retry*: another attempt while `worker.max_retries` allows one; after that the",
        "  conclusion stands. A drained task goes back to the queue and costs no attempt's budget.",
        "- *opens a PR*: on fix lanes only. In profile `contract-v2` the result must also name a",
        "  branch and at least one commit; in profile `coven-code` the adapter commits the edits",
        "  itself and opens one if there are any. Branch and commits are verified on the remote.",
        "- A Check Run names two of these more exactly: a last attempt that passed its deadline",
        "  shows `timed_out` (which blocks as `failure` does), and superseded work `neutral`; see",
        "  [publishing](publishing.md).",
        "- Review lanes tighten exit 0: findings at or above `review.fail_on` conclude `failure`,",
        "  otherwise partial or missing evidence concludes `neutral`.",
        "- In profile `coven-code` an exit 2 is not retried when its stderr shows the turn limit,",
        "  a refused credential, a refused request (4xx other than 408, 409, 425 and 429) or,",
        "  without a result file, flags that the argument parser did not accept. Outcome and",
        "  conclusion stay as in the table.",
    ]
    return "\n".join(lines) + "\n"


def _drop_titles(node: Any) -> None:
    """Titles that pydantic derives from field names say nothing; docstrings stay."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for item in node.values():
            _drop_titles(item)
    elif isinstance(node, list):
        for item in node:
            _drop_titles(item)


_ABSENT_NOT_NULL = frozenset(
    {
        "memory_policy",
        "memory_used",
        "tenant_scope",
        "repo_scope",
        "branch_scope",
        "retention",
        "denied",
    }
)


_ALWAYS = frozenset({"contract_version", "kind", "skills"})
"""Required on the wire, whatever default spares the code from writing them."""


def _tighten(body: dict[str, Any]) -> None:
    """No default values, and null only where the contract says so.

    The memory blocks and the scopes in them are left out when there is none, never null.
    """
    for node in (body, *body.get("$defs", {}).values()):
        required = node.get("required", [])
        added = [name for name in node.get("properties", {}) if name in _ALWAYS - set(required)]
        if added:
            node["required"] = [*added, *required]
        for name, field in node.get("properties", {}).items():
            field.pop("default", None)
            choices = field.get("anyOf")
            if choices and name in _ABSENT_NOT_NULL:
                (only,) = [choice for choice in choices if choice != {"type": "null"}]
                del field["anyOf"]
                field.update(only)


def _pretty(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check all documents; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m coven.contract.schemas")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    stale = [
        name
        for name, text in documents().items()
        if not (path := options.folder / name).is_file() or path.read_text("utf-8") != text
    ]
    for name in stale:
        path = options.folder / name
        if options.check:
            sys.stderr.write(f"{path} differs from the models\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(documents()[name], "utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
