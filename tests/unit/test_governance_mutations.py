"""The corpus notices when any step of the matchers is taken away."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from coven.governance import bash, evaluate, policy, rules, world
from tests.support.governance_corpus import FOLDER, build, every_case, fires

MODULES = {"world": world, "rules": rules, "policy": policy, "evaluate": evaluate}
MUTATIONS = tomllib.loads((FOLDER.parent / "matching_mutations.toml").read_text(encoding="utf-8"))[
    "mutation"
]
CASES = every_case()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("mutations"))


@contextmanager
def mutated(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """The functions and constants of a module as its changed source has them."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"stands {source.count(old)} times in {module.__name__}: {old}"
    changed: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(old, new), "<mutated>", "exec"), changed)
    real, codes = vars(module), []
    constants = {name: real[name] for name, value in changed.items() if _constant(name, value)}
    for function, other in _functions(real, changed, module.__name__):
        codes.append((function, function.__code__))
        function.__code__ = other.__code__
    real.update({name: changed[name] for name in constants})
    try:
        yield
    finally:
        real.update(constants)
        for function, code in codes:
            function.__code__ = code


def _constant(name: str, value: object) -> bool:
    return name.isupper() and isinstance(value, re.Pattern | frozenset | tuple | int | str)


def _functions(
    real: Mapping[str, Any], changed: Mapping[str, Any], module: str
) -> Iterator[tuple[Any, Any]]:
    """Functions and methods of the module itself, each with its changed twin."""
    for name, value in real.items():
        if getattr(value, "__module__", None) != module or name not in changed:
            continue
        if isinstance(value, FunctionType):
            yield value, changed[name]
        elif isinstance(value, type):
            yield from _methods(value, changed[name])


def _methods(real: type, changed: type) -> Iterator[tuple[Any, Any]]:
    for name, value in vars(real).items():
        other = vars(changed).get(name)
        value, other = getattr(value, "fget", value), getattr(other, "fget", other)
        plain = isinstance(value, FunctionType) and isinstance(other, FunctionType)
        if plain and value.__code__.co_freevars == other.__code__.co_freevars:
            yield value, other


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda mutation: f"{mutation['module']}: {mutation['step']}"
)
def test_a_missing_step_is_noticed(mutation: dict[str, str], root: Path) -> None:
    case = CASES[mutation["flips"]]
    assert fires(case, root, MODULES, bash.analyse) is case.fires
    module = importlib.import_module(f"coven.governance.{mutation['module']}")
    with mutated(module, mutation["old"], mutation["new"]):
        assert fires(case, root, MODULES, bash.analyse) is not case.fires
    assert fires(case, root, MODULES, bash.analyse) is case.fires
