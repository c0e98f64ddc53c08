"""A receiver on a temporary ledger, and a GitHub that behaves or misbehaves on demand."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from flask.testing import FlaskClient

from coven.clock import ManualClock
from coven.errors import GitHubNotFound, GitHubUnavailable
from coven.github.factory import GitHub
from coven.github.models import AppInfo, Permission
from coven.github.roles import Role
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.store import intake, surfaces, tasks
from coven.store.engine import Store
from coven.store.tasks import Task
from coven.values import InstallationId, RepoId, RepoName, TaskId
from tests import leaks
from webhooks.app import create_app
from webhooks.signature import sign

SECRET = b"It's a Secret to Everybody"
leaks.remember(SECRET.decode())
FIXTURES = Path(__file__).parents[1] / "fixtures" / "payloads"
INSTALLATION = InstallationId(42)
REPO = RepoId(555)
HEAD = "1" * 40
MONA = {"login": "mona", "id": 2001, "type": "User"}
LISA = {"login": "lisa", "id": 2002, "type": "User"}


def payload(name: str, **changes: Any) -> dict[str, Any]:
    """A committed fixture; ``a__b=value`` changes the nested key ``a.b``."""
    body: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = body
        for parent in parents:
            target = target[parent]
        target[last] = value
    return body


@dataclass
class GitHubDouble:
    """Answers about rights from a table; may hang or fail."""

    rights: dict[str, Permission] = field(
        default_factory=lambda: {
            "mona": Permission("write", "maintain", 2001),
            "lisa": Permission("write", "write", 2002),
        }
    )
    collaborators: set[str] = field(default_factory=set)
    mode: str = "answer"
    calls: list[tuple[str, str]] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def for_repo(
        self,
        installation: InstallationId,
        repo_id: RepoId,
        repo: RepoName,
        role: Role,
        *,
        timeout_secs: float | None = None,
    ) -> GitHubDouble:
        assert timeout_secs
        assert timeout_secs > 0
        self.roles.append(role)
        return self

    def app_info(self) -> AppInfo:
        return AppInfo(4242, "cody-familiar", "cody-familiar[bot]", None)

    def permission(self, login: str) -> Permission:
        self.calls.append(("permission", login))
        self._misbehave()
        if login not in self.rights:
            raise GitHubNotFound(f"{login} is not a user", status=404)
        return self.rights[login]

    def is_collaborator(self, login: str) -> bool:
        self.calls.append(("is_collaborator", login))
        self._misbehave()
        return login in self.collaborators

    def _misbehave(self) -> None:
        if self.mode == "hang":
            self.released.wait(20)
        if self.mode == "error":
            raise GitHubUnavailable("502", status=502)


@dataclass
class BellDouble:
    """Remembers who was rung for; ``deaf``: nobody can be told."""

    deaf: bool = False
    rung: list[tuple[str, str]] = field(default_factory=list)

    def _ring(self, what: str, task_id: TaskId) -> bool:
        self.rung.append((what, task_id))
        return not self.deaf

    def session(self, task_id: TaskId) -> bool:
        return self._ring("session", task_id)

    def control(self, task_id: TaskId) -> bool:
        return self._ring("control", task_id)

    def publish(self, task_id: TaskId) -> bool:
        return self._ring("publish", task_id)


def settings(**changes: Any) -> Settings:
    """One familiar, automatic review on, open routing."""
    base: dict[str, Any] = {
        "github": {"app_id": 4242, "webhook_secret": SECRET.decode(), "lookup_budget_secs": 0.5},
        "familiars": [
            {
                "id": "cody",
                "display_name": "Cody",
                "bot_username": "cody-familiar[bot]",
                "trigger_labels": ["coven:fix", "coven:review"],
            }
        ],
        "review": {"pull_request": True},
    }
    for section, values in changes.items():
        if isinstance(values, dict):
            base[section] = base.get(section, {}) | values
        else:
            base[section] = values
    return Settings.model_validate(base)


class Bench:
    """Everything a test of the receiver touches."""

    def __init__(self, store: Store, config: Settings | None = None) -> None:
        self.settings = config or settings()
        self.store = store
        self.github = GitHubDouble()
        self.bell = BellDouble()
        self.clock = ManualClock()
        self.services = Services(
            settings=self.settings,
            store=self.store,
            github=cast(GitHub, self.github),
            clock=self.clock,
            seam=Seam(),
            bell=self.bell,
            redactor=Redactor(),
            secret_key=b"k" * 32,
        )
        self.app = create_app(self.services)
        self.client: FlaskClient = self.app.test_client()
        self._ids = 0

    def configure(self, config: Settings) -> None:
        """The same ledger under another configuration, as after a restart."""
        self.settings = config
        self.services = Services(**{**self.services.__dict__, "settings": config})
        self.app = create_app(self.services)
        self.client = self.app.test_client()

    def post(
        self,
        raw: bytes,
        event: str = "pull_request",
        delivery: str | None = None,
        **headers: str | None,
    ) -> Any:
        """Send raw bytes, correctly signed unless a header says otherwise (None: left out)."""
        self._ids += 1
        given: dict[str, str | None] = {
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery or f"d-{self._ids}",
            "X-Hub-Signature-256": sign(raw, SECRET),
        }
        for name, value in headers.items():
            given[name.replace("_", "-")] = value
        sent = {name: value for name, value in given.items() if value is not None}
        return self.client.post("/webhook", data=raw, headers=sent)

    def deliver(self, event: str, body: dict[str, Any], delivery: str | None = None) -> Any:
        """Send a payload as GitHub would; returns the response."""
        return self.post(json.dumps(body).encode(), event, delivery)

    def task(self, response: Any) -> Task:
        """The task that a response names."""
        assert response.status_code == 202, response.json
        with self.store.read() as tx:
            found = tasks.get(INSTALLATION, tx, TaskId(response.json["task"]))
        assert found is not None
        return found

    def tasks(self) -> list[Task]:
        """All tasks, oldest first."""
        with self.store.read() as tx:
            return list(reversed(tasks.recent(INSTALLATION, tx, 1_000)))

    def of_delivery(self, delivery: str) -> list[Task]:
        with self.store.read() as tx:
            return intake.tasks_of_delivery(INSTALLATION, tx, delivery)  # type: ignore[arg-type]

    def row(self, delivery: str) -> Any:
        """The ledger row of a delivery, or None."""
        from coven.store import deliveries

        with self.store.read() as tx:
            return deliveries.find(tx, delivery)  # type: ignore[arg-type]

    def surfaces(self, task: Task) -> list[surfaces.Surface]:
        with self.store.read() as tx:
            return surfaces.of_task(INSTALLATION, tx, task.id)

    def finish(self, task: Task, state: str, **more: Any) -> None:
        """Pretend that a worker ended a task."""
        from sqlalchemy import update

        from coven.store.tables import tasks as table

        with self.store.write() as tx:
            tx.execute(
                update(table)
                .where(table.c.id == task.id)
                .values(state=state, finished_at=self.clock.now(), **more)
            )

    def run(self, task: Task) -> None:
        """Pretend that a worker holds a task."""
        with self.store.write() as tx:
            claimed = tasks.claim(task.installation_id, tx, task.id, "lease", self.clock.now(), 90)
        assert claimed is not None
