"""A publisher with real ledgers and a GitHub in memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from coven.clock import ManualClock
from coven.github.factory import GitHub
from coven.governance.faults import Faults, NoFaults
from coven.governance.wire import Seam
from coven.publication import (
    Annotation,
    CheckRunContent,
    Content,
    PullRequestContent,
    ReplyContent,
    StatusCommentContent,
)
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import GitHub as GitHubSettings
from coven.settings.models import Server, Settings
from coven.store import surfaces, tasks
from coven.store.engine import Store
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.values import (
    InstallationId,
    RepoId,
    SurfaceKind,
    SurfaceState,
    TaskId,
)
from tests.ledger import new_task
from tests.support.fake_github import APP, FakeGitHub
from worker.publish.publisher import publish_surface, publish_task

INSTALLATION = InstallationId(41)
REPO_ID = RepoId(7)
SHA = "a" * 40
THREAD = 12
KEY = b"k" * 32
BRANCH = "cody/fix-12-0123abcd"


@dataclass(frozen=True)
class World:
    """Where the surfaces of a bench belong."""

    installation: InstallationId = INSTALLATION
    repo_id: RepoId = REPO_ID
    owner: str = "octo"
    name: str = "demo"
    sha: str = SHA
    thread: int = THREAD
    branch: str = BRANCH
    branch_sha: str = "c" * 40


class NoBell:
    """Tells nobody."""

    def session(self, task_id: TaskId) -> bool:
        return False

    def control(self, task_id: TaskId) -> bool:
        return False

    def publish(self, task_id: TaskId) -> bool:
        return False


class Bench:
    """One task, its surfaces, and the publisher that shows them."""

    def __init__(
        self,
        store: Store,
        github: FakeGitHub | None = None,
        clock: ManualClock | None = None,
        faults: Faults | None = None,
        *,
        world: World | None = None,
        real: GitHub | None = None,
        settings: Settings | None = None,
    ) -> None:
        """``real`` is a GitHub behind HTTP, with ``settings`` to match; else ``github``."""
        self.store = store
        self.github = github or FakeGitHub()
        self.clock = clock or ManualClock()
        self.world = world or World()
        self.services = Services(
            settings=settings or Settings(server=Server(), github=GitHubSettings(app_id=APP.id)),
            store=store,
            github=real or cast(GitHub, self.github),
            clock=self.clock,
            seam=Seam(faults=faults or NoFaults()),
            bell=NoBell(),
            redactor=Redactor(),
            secret_key=KEY,
        )
        self.github.branches |= {"main": "b" * 40, BRANCH: "c" * 40}
        self.task = self.add_task()

    def add_task(self) -> Task:
        now = self.clock.now()
        new = new_task(
            installation_id=self.world.installation,
            repo_id=self.world.repo_id,
            repo_owner=self.world.owner,
            repo_name=self.world.name,
            thread=self.world.thread,
            title="A change",
            source_at=now,
            created_at=now,
        )
        with self.store.write() as tx:
            assert tasks.insert_new(self.world.installation, tx, new)
            task = tasks.get(self.world.installation, tx, new.id)
        assert task is not None
        return task

    def desire(
        self,
        kind: SurfaceKind,
        subject: str,
        content: Content | dict[str, Any],
        task: Task | None = None,
    ) -> bool:
        desired = content if isinstance(content, dict) else content.model_dump(mode="json")
        with self.store.write() as tx:
            return surfaces.desire(
                self.world.installation,
                tx,
                task or self.task,
                kind,
                subject,
                desired,
                self.clock.now(),
            )

    def check(self, **changes: Any) -> CheckRunContent:
        content = CheckRunContent(
            name="Cody / review",
            head_sha=self.world.sha,
            external_id=f"{self.task.id}:1",
            status="queued",
            title="Queued",
            summary="In the queue.",
        )
        content = CheckRunContent.model_validate(content.model_dump() | changes)
        assert self.desire(SurfaceKind.CHECK_RUN, f"task:{self.task.id}:1", content)
        return content

    def comment(self, body: str, task: Task | None = None) -> None:
        content = StatusCommentContent(
            thread=self.world.thread, familiar_id="cody", state="working", body=body
        )
        self.desire(SurfaceKind.STATUS_COMMENT, f"thread:{self.world.thread}:cody", content, task)

    def reply(self, body: str, comment_id: int = 500, kind: Any = "issue_comment") -> None:
        content = ReplyContent(
            thread=self.world.thread,
            familiar_id="cody",
            comment_id=comment_id,
            comment_kind=kind,
            body=body,
        )
        assert self.desire(SurfaceKind.REPLY, f"comment:{comment_id}", content)

    def pull(self, **changes: Any) -> PullRequestContent:
        content = PullRequestContent(
            head=self.world.branch,
            head_sha=self.world.branch_sha,
            base="main",
            title="Mend it",
            body="Done.",
            thread=self.world.thread,
            familiar_id="cody",
        )
        content = PullRequestContent.model_validate(content.model_dump() | changes)
        assert self.desire(SurfaceKind.PULL_REQUEST, f"branch:{self.world.branch}", content)
        return content

    def publish(self) -> int:
        return publish_task(self.services, self.task.id)

    def publish_row(self, row: Surface) -> Surface | None:
        return publish_surface(self.services, row)

    def rows(self) -> list[Surface]:
        with self.store.read() as tx:
            return surfaces.of_task(self.world.installation, tx, self.task.id)

    def row(self, kind: SurfaceKind) -> Surface:
        return next(row for row in self.rows() if row.kind is kind)

    def until_settled(self, most: int = 200) -> None:
        """Publish as the clock goes on, until no surface is pending."""
        for _ in range(most):
            if self.publish() == 0:
                return
            self.pass_time()
        raise AssertionError([(row.kind, row.state, row.error) for row in self.rows()])

    def pass_time(self) -> None:
        """Move to when the next pending surface is due and free."""
        waits = [
            max(row.next_at, row.lease_expires_at or row.next_at)
            for row in self.rows()
            if row.state is SurfaceState.PENDING
        ]
        if waits:
            ahead = min(waits) - self.clock.now() + timedelta(milliseconds=1)
            self.clock.advance(max(ahead.total_seconds(), 0.001))


def findings(count: int) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(
            path="src/app.py",
            start_line=n + 1,
            end_line=n + 1,
            level="warning",
            title=f"Finding {n}",
            message=f"Message {n}",
        )
        for n in range(count)
    )
