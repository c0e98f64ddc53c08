"""No rule of memory can go unnoticed: the corpus holds, and breaks without any one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coven.memory import keys
from tests.mutations import corpus, database
from tests.mutations.memory import MUTATIONS
from tests.mutations.runner import Mutation, breaks, corpus_with, mutated_source


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    database.close()


@pytest.mark.parametrize("name", corpus.CHECKS)
def test_the_corpus_holds_and_each_case_names_its_own_rule(name: str) -> None:
    found = corpus.cases(name)
    rules = [case["rule"] for case in found]
    assert len(set(rules)) == len(rules) > 0
    for case in found:
        corpus.CHECKS[name](case)


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(each, id=f"{each.module.split('.')[-1]}: {each.rule}") for each in MUTATIONS],
)
def test_without_the_rule_a_case_breaks(mutation: Mutation) -> None:
    assert breaks(mutation)


def test_a_change_that_changes_nothing_breaks_nothing() -> None:
    idle = Mutation(
        "none",
        "coven.memory.keys",
        "MAX_CHARS = 200",
        "MAX_CHARS = 100 + 100",
        "keys",
        "200 characters at most",
    )
    assert not breaks(idle)
    with pytest.raises(LookupError, match="stands 0 times"):
        mutated_source(replace(idle, old="no such text"))
    with pytest.raises(ValueError, match="not enough values"):
        breaks(replace(idle, case="no such case"))


def test_a_mutation_leaves_the_process_as_it_was() -> None:
    before = dict(sys.modules)
    source = mutated_source(MUTATIONS[0])
    with corpus_with({MUTATIONS[0].module: source}) as changed:
        assert changed is not corpus
        assert sys.modules["coven.memory.keys"] is not keys
    import coven.memory

    assert coven.memory.keys is keys
    assert {name: sys.modules[name] for name in before} == before
