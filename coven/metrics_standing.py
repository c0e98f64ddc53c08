"""What stands right now, for the metrics: names and meanings; the numbers come from the ledgers."""

from __future__ import annotations

from coven.metrics import Kind, Metric


def _gauge(name: str, help_: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, help_, labels)


TASKS = _gauge("coven_tasks", "Live tasks, by state and lane.", "state", "lane")
DUE_AGE = _gauge(
    "coven_queue_oldest_seconds", "For how long the oldest task could have begun.", "lane"
)
LEASES_EXPIRED = _gauge("coven_leases_expired", "Running tasks whose lease is over.")
SURFACES = _gauge("coven_surfaces_pending", "Surfaces that differ from GitHub.", "kind")
SURFACES_AGE = _gauge(
    "coven_surfaces_oldest_seconds", "For how long the oldest of them has differed.", "kind"
)
SURFACES_FAILED = _gauge("coven_surfaces_failed", "Surfaces that were given up.", "kind")
MEMORY_PENDING = _gauge("coven_memory_pending", "Memory proposals that wait for a maintainer.")
ESCALATIONS = _gauge("coven_escalations_open", "Escalations that wait for a person.")
CHAIN = _gauge("coven_governance_chain_length", "Rows of the governance record.")
INSTALLATIONS = _gauge("coven_installations", "Known installations, by state.", "state")
PURGES = _gauge("coven_purges_pending", "Purges that are not done yet.")
UPKEEP_AT = _gauge(
    "coven_upkeep_last_run_timestamp_seconds", "When each periodic job last began.", "job"
)
READY = _gauge("coven_ready", "Whether a check of /readyz passes (1) or not (0).", "check")
INFO = _gauge("coven_build_info", "Always 1; the release is a label.", "version")

STANDING: tuple[Metric, ...] = (
    TASKS,
    DUE_AGE,
    LEASES_EXPIRED,
    SURFACES,
    SURFACES_AGE,
    SURFACES_FAILED,
    MEMORY_PENDING,
    ESCALATIONS,
    CHAIN,
    INSTALLATIONS,
    PURGES,
    UPKEEP_AT,
)
"""What :func:`coven.store.standing.read` answers."""

ASKED: tuple[Metric, ...] = (READY, INFO)
"""What the process says that is asked."""
