"""The oldest release that can use the database as it is now."""

from __future__ import annotations

from sqlalchemy import Column, Table

from coven.store.tables import CleanString, metadata

schema_floor = Table(
    "schema_floor",
    metadata,
    Column(
        "revision", CleanString(32), primary_key=True, comment="one row; see coven.store.migrate"
    ),
)
