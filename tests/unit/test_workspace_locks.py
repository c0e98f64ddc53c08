"""The lock of a mirror has a time limit, a stop, and no memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.clock import ManualClock
from coven.errors import WorkspaceUnavailable
from coven.governance.wire import Seam
from worker.workspace.errors import CheckoutStopped
from worker.workspace.locks import file_lock


def test_a_held_lock_is_waited_for_only_so_long(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "m.lock"
    began = clock.monotonic()
    with (
        file_lock(Seam(), clock, path, exclusive=True, timeout=1),
        pytest.raises(WorkspaceUnavailable, match="busy"),
        file_lock(Seam(), clock, path, exclusive=True, timeout=5),
    ):
        pytest.fail("two holders")
    assert 5 <= clock.monotonic() - began < 6
    with file_lock(Seam(), clock, path, exclusive=True, timeout=0):
        assert path.exists()


def test_readers_share_and_a_stop_ends_the_wait(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "m.lock"
    with (
        file_lock(Seam(), clock, path, exclusive=False, timeout=0),
        file_lock(Seam(), clock, path, exclusive=False, timeout=0),
        pytest.raises(CheckoutStopped),
        file_lock(Seam(), clock, path, exclusive=True, timeout=60, stop=lambda: True),
    ):
        pytest.fail("a writer among readers")


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "m.lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(OSError, match="symbolic"),
        file_lock(Seam(), ManualClock(), tmp_path / "m.lock", exclusive=True, timeout=0),
    ):
        pytest.fail("followed")
    assert not (tmp_path / "elsewhere").exists()
