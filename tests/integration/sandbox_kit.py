"""A sandbox with one installed organisation, and a small client that checks every good answer."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import requests

from coven.sandbox.client import SandboxAdmin
from coven.sandbox.process import SandboxHandle, launch_sandbox
from tests.support.openapi import committed, full

REPO = "acme/shop"
BEFORE = "def total(items):\n    return sum(items)\n"
AFTER = "def total(items):\n    print(items)\n    return eval('sum(items)')\n"
# The description demands an account that is a user and an enterprise at once (``allOf``).
QUIRK = re.compile(r"^GET /app/installations: \d+/account:")
FILES = {"app.py": BEFORE, "README.md": "# Shop\n", "docs/guide.md": "Read me.\n"}


class World:
    """``acme/shop`` (private, of an organisation), people in all roles, the App installed."""

    def __init__(self, handle: SandboxHandle) -> None:
        self.handle = handle
        self.admin: SandboxAdmin = handle.admin
        self.base = handle.base_url
        self.problems: list[str] = []
        self.done: set[str] = set()
        self.session = requests.Session()
        self.session.trust_env = False
        self.fill()

    def fill(self) -> None:
        """Start again from the same world."""
        admin = self.admin
        admin.reset()
        for login in ("mira", "sam", "rex"):
            admin.create_user(login)
        made = admin.create_repository(
            REPO, files=FILES, private=True, owner_type="Organization", protected=["main"]
        )
        self.repo_id = made.id
        admin.set_role(REPO, "mira", "write")
        admin.set_role(REPO, "rex", "reviewer-plus", base="triage")
        self.installation = admin.install("acme").id

    def app_jwt(self, **claims: Any) -> str:
        """A good JWT of the App; claims override, None removes one."""
        now = int(time.time())
        good = {"iat": now - 60, "exp": now + 540, "iss": str(self.handle.app_id)}
        chosen = {k: v for k, v in {**good, **claims}.items() if v is not None}
        key = self.handle.private_key
        return jwt.PyJWT(options={"enforce_minimum_key_length": False}).encode(
            chosen, key, algorithm="RS256"
        )

    def token(
        self, permissions: dict[str, str] | None = None, repo: str | int | None = REPO
    ) -> str:
        """A token for one repository (or, with None, for all)."""
        body: dict[str, Any] = {}
        if repo is not None:
            body["repository_ids"] = [self.repo_id if repo == REPO else repo]
        if permissions is not None:
            body["permissions"] = permissions
        path = f"/app/installations/{self.installation}/access_tokens"
        answer = self.call("POST", path, self.app_jwt(), body, expect=201)
        return str(answer.json()["token"])

    def call(
        self,
        method: str,
        path: str,
        token: str | None = None,
        body: Any = None,
        *,
        expect: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> requests.Response:
        """One API request. Answers below 300 are checked against GitHub's description."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        answer = self.session.request(
            method,
            self.base + path,
            json=body,
            headers=sent,
            timeout=20,
            allow_redirects=False,
        )
        if expect is not None:
            assert answer.status_code == expect, (
                f"{method} {path}: {answer.status_code} {answer.text}"
            )
        if answer.status_code < 300 and not path.startswith("/repositories/"):
            plain = re.sub(r"^/api/v3", "", path.split("?")[0])
            data = answer.json() if answer.content else None
            for description in filter(None, (committed(), full())):
                found = description.operation(method, plain)
                if found is not None:
                    self.done.add(f"{method} {found[0]}")
                wrong = description.problems(method, plain, answer.status_code, data)
                self.problems += [one for one in wrong if not QUIRK.match(one)]
        return answer

    def repo(
        self, method: str, path: str, token: str, body: Any = None, expect: int | None = None
    ) -> requests.Response:
        """A request below ``/repos/acme/shop``."""
        return self.call(method, f"/repos/{REPO}{path}", token, body, expect=expect)

    def open_pull(self, **options: Any) -> dict[str, Any]:
        """A pull request with findings in it."""
        files = options.pop("files", {"app.py": AFTER})
        options.setdefault("author", "mira")
        return dict(self.admin.open_pull(REPO, "Print the items", files, **options).result)


@contextmanager
def world(folder: Path, *, in_process: bool = True) -> Iterator[World]:
    """A world that is checked at its end: no answer broke the description, no route was unknown."""
    handle = launch_sandbox(folder, in_process=in_process)
    try:
        yield World(handle)
    finally:
        handle.stop()


def basic(token: str) -> str:
    """The header that git sends for an installation token."""
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


class Git:
    """The real git as a client, with the token in its environment only."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "Cody",
            "GIT_AUTHOR_EMAIL": "cody@example.org",
            "GIT_COMMITTER_NAME": "Cody",
            "GIT_COMMITTER_EMAIL": "cody@example.org",
        }
        if token is not None:
            self.env |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: {basic(token)}",
            }

    def __call__(self, *args: str, where: str = ".") -> tuple[int, str]:
        """Exit code and all output."""
        done = subprocess.run(  # noqa: TID251 - the git of a person
            ["git", *args],
            cwd=self.folder / where,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).strip()

    def must(self, *args: str, where: str = ".") -> str:
        """Output of a command that has to succeed."""
        code, said = self(*args, where=where)
        assert code == 0, f"git {args[0]}: {said}"
        return said
