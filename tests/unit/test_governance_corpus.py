"""Every spelling of a forbidden action is caught, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.governance import bash, evaluate, policy, rules, world
from tests.support.governance_corpus import Case, build, cases, every_case, fires

MODULES = {"world": world, "rules": rules, "policy": policy, "evaluate": evaluate}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize(
    "case",
    [case for name in ("paths", "hosts", "spawn", "custom") for case in cases(name)],
    ids=lambda case: case.id,
)
def test_trick(case: Case, root: Path) -> None:
    assert fires(case, root, MODULES, bash.analyse) is case.fires, case.trick


def test_the_corpus_is_large_enough() -> None:
    evasions = [case for case in every_case().values() if case.fires]
    assert len(evasions) >= 150
    assert len({(case.trick, str(case.rule)) for case in evasions}) == len(evasions)
