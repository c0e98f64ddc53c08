"""Copies of the routing modules with one rule taken out of the source."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
ORDER = (
    "webhooks.payloads",
    "webhooks.commands",
    "webhooks.intents",
    "webhooks.addressed",
    "webhooks.clicked",
    "webhooks.route_labels",
    "webhooks.route_issues",
    "webhooks.route_pulls",
    "webhooks.route_tenancy",
    "webhooks.routing",
    "webhooks.trust",
)
"""Each after what it imports."""


@dataclass(frozen=True)
class Mutation:
    """``old``: stands once in the module and holds the rule; ``new``: the module without it."""

    rule: str
    module: str
    old: str
    new: str

    def mutated(self) -> str:
        """The source without the rule."""
        source = source_of(f"webhooks.{self.module}")
        assert source.count(self.old) == 1, f"{self.rule}: {self.old!r} is no single place"
        return source.replace(self.old, self.new)


def source_of(name: str) -> str:
    """The source of one of our modules."""
    return (ROOT / f"{name.replace('.', '/')}.py").read_text()


@cache
def _compiled(name: str) -> CodeType:
    return compile(source_of(name), name, "exec")


@contextmanager
def without(mutation: Mutation) -> Iterator[dict[str, ModuleType]]:
    """The modules of ``ORDER`` from the mutated one on, executed anew."""
    mutated = f"webhooks.{mutation.module}"
    anew = ORDER[ORDER.index(mutated) :]
    kept = {name: importlib.import_module(name) for name in ORDER}
    package = sys.modules["webhooks"]
    try:
        for name in anew:
            spec = importlib.util.spec_from_loader(name, loader=None)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            setattr(package, name.rpartition(".")[2], module)
            code = compile(mutation.mutated(), name, "exec") if name == mutated else _compiled(name)
            exec(code, module.__dict__)
        yield {name: sys.modules[name] for name in ORDER}
    finally:
        for name, module in kept.items():
            sys.modules[name] = module
            setattr(package, name.rpartition(".")[2], module)
