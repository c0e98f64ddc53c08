"""The one table of all pages and actions. Routes, rights and the record come from it."""

from __future__ import annotations

from collections.abc import Sequence

from webhooks.dashboard import (
    audit,
    configuration,
    deliveries,
    memory,
    now,
    rules,
    tasks,
    usage,
)
from webhooks.dashboard.asking import Page

PAGES: Sequence[Page] = (
    *now.PAGES,
    *tasks.PAGES,
    *deliveries.PAGES,
    *memory.PAGES,
    *rules.PAGES,
    *usage.PAGES,
    *audit.PAGES,
    *configuration.PAGES,
)
