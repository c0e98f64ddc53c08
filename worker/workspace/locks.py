"""File locks with a time limit, between worker processes of one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coven.clock import Clock
from coven.errors import WorkspaceUnavailable
from coven.governance.wire import Seam, writing
from worker.workspace.errors import CheckoutStopped

_POLL_SECS = 0.05


@contextmanager
def file_lock(
    seam: Seam,
    clock: Clock,
    path: Path,
    *,
    exclusive: bool,
    timeout: float,
    stop: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Hold a lock on ``path``; the kernel gives it back when this process dies.

    Raises ``WorkspaceUnavailable`` after ``timeout`` seconds, ``CheckoutStopped`` when told to.
    The file stays: removing a lock file while others open it would split the lock in two.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = seam.perform(writing(path), "workspace.lock", lambda: os.open(path, flags, 0o600))
    try:
        deadline = clock.monotonic() + timeout
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        while True:
            try:
                fcntl.flock(handle, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            if stop is not None and stop():
                raise CheckoutStopped("stopped while waiting for the mirror's lock")
            if clock.monotonic() >= deadline:
                raise WorkspaceUnavailable(
                    f"the mirror is busy: no lock within {timeout:g} s ({path.name})"
                )
            clock.sleep(_POLL_SECS)
        yield
    finally:
        os.close(handle)
