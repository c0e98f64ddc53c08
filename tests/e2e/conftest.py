"""One running product per module; every test gets its own repository and leaves a world at rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.kit import Product, Repo, make_repo, running

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def product(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """The product with the module's ``KEYS``, ``FAMILIARS``, ``BACKEND`` and ``environ_for``."""
    folder: Path = tmp_path_factory.mktemp("product")
    keys = getattr(request.module, "KEYS", None)
    familiars = getattr(request.module, "FAMILIARS", ())
    backend = getattr(request.module, "BACKEND", "host")
    environ_for = getattr(request.module, "environ_for", None)
    environ = environ_for(folder) if environ_for else None
    with running(folder, keys, familiars, backend=backend, environ=environ) as product:
        yield product


@pytest.fixture
def new_repo(product: Product) -> Iterator[Callable[..., Repo]]:
    """Makes repositories; at the end every promise of the product must hold."""

    def make(**options: object) -> Repo:
        return make_repo(product, f"acme/things-{next(_numbers)}", **options)

    yield make
    product.settle()


@pytest.fixture
def repo(new_repo: Callable[..., Repo]) -> Repo:
    """A fresh repository with a maintainer."""
    return new_repo()
