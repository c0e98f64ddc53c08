"""What maintainers see on GitHub: ``python -m tests.support.screenshots_github [FOLDER]``.

The demo is played on the sandbox GitHub, and its pages are taken.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import FloatRect, sync_playwright
from rich.console import Console

from coven.sandbox.demo import REPO, Demo, play, start_sandbox
from coven.sandbox.stack import Stack
from tests.support.screenshots import CHROMIUM

WIDTH = 760
PICTURES: dict[str, tuple[str, FloatRect]] = {
    "github-review": ("pull/1", {"x": 0, "y": 278, "width": WIDTH, "height": 512}),
    "github-lines": ("pull/1", {"x": 0, "y": 800, "width": WIDTH, "height": 600}),
    "github-fix": ("issues/2", {"x": 0, "y": 70, "width": WIDTH, "height": 690}),
}
"""Names, pages of the demo's repository, and the part of them that is shown."""


def main(folder: Path) -> None:
    """Play the demo and take them all. Raises ``StepFailed`` when the demo fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        demo = Demo(Path(place), Console(quiet=True))
        sandbox, admin, known = start_sandbox(Path(place) / "sandbox")
        stack = Stack(Path(place) / "product", known, backend="bubblewrap")
        try:
            stack.prepare()
            stack.start()
            demo.store = stack.open_store()
            play(demo, admin, stack)
            _take(f"{known.base_url}/{REPO}", folder)
        finally:
            if demo.store is not None:
                demo.store.close()
            stack.stop()
            sandbox.terminate()
            sandbox.wait(timeout=10)


def _take(base: str, folder: Path) -> None:
    with sync_playwright() as play_:
        browser = play_.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 860})
        for name, (path, part) in PICTURES.items():
            page.goto(f"{base}/{path}")
            page.screenshot(path=folder / f"{name}.png", clip=part, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
