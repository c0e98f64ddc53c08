"""What the end-to-end tests need: a running product, a repository of their own, and patience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coven.sandbox.client import Delivered, SandboxAdmin
from coven.sandbox.demo import start_sandbox
from coven.sandbox.stack import DemoFamiliar, Stack, wait_for
from coven.store.engine import Store
from tests.invariants import broken

Json = Any
SETTLE_SECS = 60.0


@dataclass
class Product:
    """A running stack, its sandbox and its ledgers."""

    stack: Stack
    admin: SandboxAdmin
    store: Store
    installation_of: dict[str, int]

    def broken(self) -> list[str]:
        """Promises that do not hold now."""
        sent = [delivery.__dict__ for delivery in self.admin.deliveries()]
        return broken(
            self.store,
            self.stack.settings,
            self.admin.state(),
            sent,
            self.admin.requests(),
            self.stack.state_dir / "logs",
        )

    def settle(self, timeout: float = SETTLE_SECS) -> None:
        """Wait until every promise holds; fail with the broken ones."""
        deadline = time.monotonic() + timeout
        problems = self.broken()
        while problems and time.monotonic() < deadline:
            time.sleep(0.2)
            problems = self.broken()
        assert not problems, "\n".join(problems)


@contextmanager
def running(
    folder: Path,
    keys: dict[str, dict[str, str]] | None = None,
    familiars: tuple[DemoFamiliar, ...] = (),
    start: bool = True,
    backend: str = "host",
    environ: dict[str, str] | None = None,
) -> Iterator[Product]:
    """A sandbox and a product, stopped at the end whatever happens."""
    process, admin, known = start_sandbox(folder / "sandbox")
    stack = Stack(
        folder / "product", known, keys or {}, backend, familiars=familiars, environ=environ or {}
    )
    store: Store | None = None
    try:
        stack.prepare()
        store = stack.open_store()
        if start:
            stack.start()
        admin.set_webhook(stack.webhook_url, stack.webhook_secret)
        yield Product(stack, admin, store, {})
    finally:
        if store is not None:
            store.close()
        stack.stop()
        process.terminate()
        process.wait(timeout=10)


@dataclass
class Repo:
    """One repository of one test, with a maintainer in it."""

    product: Product
    name: str
    maintainer: str = "mona"

    @property
    def admin(self) -> SandboxAdmin:
        return self.product.admin

    def state(self) -> dict[str, Json]:
        found: dict[str, Json] = next(
            r for r in self.admin.state()["repositories"] if r["full_name"] == self.name
        )
        return found

    def runs(self, sha: str | None = None) -> list[Json]:
        runs: list[Json] = self.state()["check_runs"]
        return [run for run in runs if sha is None or run["head_sha"] == sha]

    def comments(self, number: int) -> list[str]:
        """Bodies on a thread, without our markers."""
        return [
            body.split("-->", 1)[1].strip() if body.startswith("<!-- coven-github") else body
            for body in (c["body"] for c in self.state()["comments"] if c["number"] == number)
        ]

    def pulls(self) -> list[Json]:
        pulls: list[Json] = self.state()["pulls"]
        return pulls

    def completed(self, sha: str, timeout: float = 60.0) -> Json:
        """The one Check Run of a head, once it is completed."""
        return wait_for(
            f"the Check Run on {sha[:8]}",
            lambda: next((r for r in self.runs(sha) if r["status"] == "completed"), None),
            timeout,
        )

    def wait_comment(self, number: int, text: str, timeout: float = 60.0) -> str:
        """The first comment on the thread that holds ``text``."""
        return str(
            wait_for(
                f"a comment with {text!r} on #{number}",
                lambda: next((body for body in self.comments(number) if text in body), None),
                timeout,
            )
        )

    def say(self, number: int, body: str, author: str | None = None) -> Delivered:
        """Comment and deliver."""
        done = self.admin.comment(
            self.name, number, body, author=author or self.maintainer, deliver=True
        )
        return done.delivered

    def pull(self, files: dict[str, str], **options: Json) -> Json:
        """Open a pull request by the maintainer, delivered; its REST object."""
        options.setdefault("author", self.maintainer)
        options.setdefault("branch", "changes")
        options.setdefault("deliver", True)
        title = options.pop("title", "Change things")
        return self.admin.open_pull(self.name, title, dict(files), **options).result

    def issue(self, title: str, body: str, author: str | None = None) -> int:
        """Open an issue, undelivered; its number."""
        done = self.admin.open_issue(self.name, title, body, author=author or self.maintainer)
        return done.number


BAD_CODE = """import subprocess


def pack(name, seen=[]):
    subprocess.run(f"gzip {name}", shell=True)
    return seen == None
"""

STARTING_FILES = {
    "README.md": "# Things\n",
    "things/__init__.py": "",
    "things/mean.py": ("def mean(values):\n    return sum(values) / len(values)\n"),
}

FIX_TITLE = "mean() fails for an empty list"
FIX_BODY = (
    "`mean` in `things/mean.py` divides by the length of the list; for an empty list it should "
    "return 0."
)


def make_repo(product: Product, name: str, **options: Json) -> Repo:
    """A fresh repository with the App installed on it."""
    options.setdefault("files", dict(STARTING_FILES))
    admin = product.admin
    owner = name.split("/")[0]
    admin.create_repository(name, **options)
    repo = Repo(product, name)
    if owner not in product.installation_of:
        product.installation_of[owner] = int(admin.install(owner).result["id"])
    known = {user["login"] for user in admin.state()["users"]}
    if repo.maintainer not in known:
        admin.create_user(repo.maintainer)
    admin.set_role(name, repo.maintainer, "write")
    return repo


def until(what: str, probe: Callable[[], Json], timeout: float = 30.0) -> Json:
    """``wait_for`` under a shorter name."""
    return wait_for(what, probe, timeout)
