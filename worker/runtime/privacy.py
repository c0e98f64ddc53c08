"""Keeping a worker's own environment out of the sight of sessions that run as the same user."""

from __future__ import annotations

from worker.runtime.launch import PR_SET_DUMPABLE, prctl


def hide_from_peers() -> bool:
    """Make ``/proc/<this process>/{environ,mem,fd}`` unreadable for this user's other processes.

    Call it once when a worker starts; whether the kernel agreed. Root sees everything anyway, and
    core dumps are off from then on (prctl(2), ``PR_SET_DUMPABLE``).
    """
    return prctl(PR_SET_DUMPABLE, 0)
