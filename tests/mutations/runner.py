"""Running the corpus against a copy of the product with one rule taken out.

The modules of memory are imported anew, one of them from changed source, and everything is put
back afterwards. Nothing is written to disk, and nothing else in the process notices.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
CORPUS = "tests.mutations.corpus"
ANEW = (
    *(
        f"coven.memory.{name}"
        for name in ("keys", "pii", "book", "denied", "policy", "validation", "record", "supply")
    ),
    *(
        f"coven.store.{name}"
        for name in (
            "book",
            "book_activity",
            "book_places",
            "book_reads",
            "book_retention",
            "book_revocations",
            "book_rows",
            "book_sweeps",
        )
    ),
    CORPUS,
)
"""What is imported anew. Tables stay: there is one metadata."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One rule taken out: ``old`` stands exactly once in ``module`` and becomes ``new``."""

    rule: str
    module: str
    old: str
    new: str
    corpus: str
    """The file of the case."""
    case: str
    """The case that must break, by the rule that it names."""
    also: tuple[tuple[str, str], ...] = ()
    """What must go with it, where two checks stand for one rule."""


def mutated_source(mutation: Mutation) -> str:
    """The source with the rule taken out. Raises when the text is not there exactly once."""
    source = _path(mutation.module).read_text(encoding="utf-8")
    for old, new in ((mutation.old, mutation.new), *mutation.also):
        if source.count(old) != 1:
            raise LookupError(
                f"{mutation.rule}: {old!r} stands {source.count(old)} times in {mutation.module}"
            )
        source = source.replace(old, new)
    return source


def breaks(mutation: Mutation) -> bool:
    """Whether the case comes out differently without the rule; ``ValueError`` without a case."""
    with corpus_with({mutation.module: mutated_source(mutation)}) as corpus:
        (case,) = (each for each in corpus.cases(mutation.corpus) if each["rule"] == mutation.case)
        try:
            corpus.CHECKS[mutation.corpus](case)
        except Exception:
            return True
    return False


@contextmanager
def corpus_with(sources: dict[str, str]) -> Iterator[Any]:
    """The corpus over modules of which some come from these sources."""
    importlib.import_module(CORPUS)
    kept = {name: sys.modules.pop(name, None) for name in ANEW}
    parents = {
        name: getattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], None)
        for name in ANEW
    }
    for name in ANEW:
        _forget(name)
    finder = _Changed(sources)
    sys.meta_path.insert(0, finder)
    try:
        corpus = importlib.import_module(CORPUS)
        yield corpus
    finally:
        sys.meta_path.remove(finder)
        for name in ANEW:
            sys.modules.pop(name, None)
            _forget(name)
        for name, module in kept.items():
            if module is not None:
                sys.modules[name] = module
            if parents[name] is not None:
                parent, _, last = name.rpartition(".")
                setattr(sys.modules[parent], last, parents[name])


def _forget(name: str) -> None:
    parent, _, last = name.rpartition(".")
    if hasattr(sys.modules[parent], last):
        delattr(sys.modules[parent], last)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of memory, some with changed source; compiles each source once."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in ANEW else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__file__ = str(_path(name))
        changed = self._sources.get(name)
        code = _compiled(name) if changed is None else compile(changed, f"<{name}>", "exec")
        exec(code, module.__dict__)


@cache
def _compiled(name: str) -> CodeType:
    return compile(_path(name).read_text(encoding="utf-8"), str(_path(name)), "exec")


def _path(name: str) -> Path:
    return ROOT / f"{name.replace('.', '/')}.py"
