"""Every table of this release, on one metadata: what the migrations must produce."""

from coven.store import (
    tables_api,
    tables_floor,
    tables_governance,
    tables_memory,
    tables_metrics,
    tables_tenancy,
)
from coven.store.tables import metadata

__all__ = [
    "metadata",
    "tables_api",
    "tables_floor",
    "tables_governance",
    "tables_memory",
    "tables_metrics",
    "tables_tenancy",
]
