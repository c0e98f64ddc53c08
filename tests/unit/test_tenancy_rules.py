"""Every rule of tenancy holds, and every change to one of them is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from coven.tenancy import repo_file
from tests.tenancy_cases import CASES
from tests.tenancy_mutations import DEPENDENTS, MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", CASES)
def test_the_rule_holds(rule: str) -> None:
    CASES[rule]()


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """The product with one rule changed, in this process."""
    names = [mutation.module, *DEPENDENTS.get(mutation.module, ())]
    modules = [import_module(f"coven.tenancy.{name}") for name in names]
    before = [dict(vars(module)) for module in modules]
    try:
        for module in modules:
            load(module, mutation if module is modules[0] else None)
        yield
    finally:
        for module, kept in zip(modules, before, strict=True):
            vars(module).clear()
            vars(module).update(kept)


def load(module: ModuleType, mutation: Mutation | None) -> None:
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    if mutation is not None:
        assert source.count(mutation.old) == 1, f"{mutation.old!r} must stand there once"
        source = source.replace(mutation.old, mutation.new)
    exec(compile(source, module.__file__, "exec"), vars(module))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_changed_rule_breaks_a_case(mutation: Mutation) -> None:
    with mutated(mutation):
        for check in CASES.values():
            try:
                check()
            except Exception:
                return
    pytest.fail(f"no case noticed: {mutation.rule}")


def test_after_the_mutations_everything_holds_again() -> None:
    for check in CASES.values():
        check()


def test_the_schema_of_the_repository_file_is_the_committed_one() -> None:
    committed = ROOT / "docs" / "schemas" / "coven.schema.json"
    assert json.loads(committed.read_text()) == json.loads(json.dumps(repo_file.schema()))


def test_the_example_in_the_documentation_is_valid() -> None:
    text = (ROOT / "docs" / "tenancy.md").read_text()
    example = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert repo_file.read(example.encode()).problems == ()


@pytest.mark.parametrize("module", sorted({mutation.module for mutation in MUTATIONS}))
def test_a_module_that_is_loaded_unchanged_breaks_no_case(module: str) -> None:
    line = "from __future__ import annotations\n"
    with mutated(Mutation("none", module, line, line)):
        for check in CASES.values():
            check()
