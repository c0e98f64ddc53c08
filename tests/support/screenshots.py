"""The pictures of ``docs/images``: ``python -m tests.support.screenshots [FOLDER]``.

Main pages at three widths, with the data of the tests, in the light scheme; one page in the dark.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from coven.api_tokens import TokenScope
from coven.clock import ManualClock
from coven.store.engine import open_store
from tests.ledger import TENANT
from tests.services import sqlite_template
from tests.support.dashboard import Seeded, World, served

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {360: 740, 768: 960, 1280: 860}
AT = datetime(2026, 7, 14, 10, 0, tzinfo=UTC)


def pictures(seeded: Seeded) -> dict[str, str]:
    """Names and paths."""
    task = seeded.tasks[TENANT]
    return {
        "now": "/ops/?installation_id=41",
        "tasks": "/ops/tasks?installation_id=41",
        "task": f"/ops/tasks/{task}",
        "memory": "/ops/memory?installation_id=41",
    }


def main(folder: Path) -> None:
    """Take them all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = sqlite_template(Path(place) / "coven.db")
        store = open_store(f"sqlite:///{path}")
        world = World(store, Path(place), clock=ManualClock(AT))
        seeded = Seeded(world)
        token = world.token(None, TokenScope.ADMIN)
        with served(world) as base, sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width, height in WIDTHS.items():
                _take(browser, base, token, folder, width, height, pictures(seeded), "light")
            some = {"now-dark": pictures(seeded)["now"]}
            _take(browser, base, token, folder, 1280, 860, some, "dark")
            browser.close()
        store.close()


def _take(
    browser: Browser,
    base: str,
    token: str,
    folder: Path,
    width: int,
    height: int,
    wanted: dict[str, str],
    scheme: str,
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{base}/ops/login")
    page.fill("#token", token)
    page.press("#token", "Enter")
    page.wait_for_url(f"{base}/ops/")
    for name, path in wanted.items():
        page.goto(base + path)
        page.screenshot(path=folder / f"ops-{name}-{width}.png", full_page="--full" in sys.argv)
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
