"""The one table of all pages and actions. Routes, rights and the record come from it."""

from __future__ import annotations

from collections.abc import Sequence

from webhooks.dashboard import memory, now
from webhooks.dashboard.asking import Page

PAGES: Sequence[Page] = (*now.PAGES, *memory.PAGES)
