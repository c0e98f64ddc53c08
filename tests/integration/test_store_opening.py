"""What people read when the database can't be opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from coven.errors import ConfigurationError, StoreUnavailable
from coven.store.engine import open_store


def test_a_state_dir_that_is_a_file_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    with pytest.raises(ConfigurationError, match=r"correct server\.state_dir or storage\.path"):
        open_store(f"sqlite:///{tmp_path}/state/coven.db")


def test_a_file_that_is_no_database_comes_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "coven.db").write_text("no database, however long one looks at it" * 50)
    store = open_store(f"sqlite:///{tmp_path}/coven.db")
    with pytest.raises(StoreUnavailable, match="restore a backup"), store.read() as tx:
        tx.execute(text("SELECT 1"))
    store.close()


@pytest.mark.parametrize(
    "url",
    ["nonsense", "mysql://u:hidden@h/x", "postgresql+psycopg://u:hidden@[::1/x", "no+such://x"],
)
def test_an_address_of_no_database_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^storage\.database_url: ") as refused:
        open_store(url)
    assert "hidden" not in str(refused.value)
    assert refused.value.__cause__ is None
