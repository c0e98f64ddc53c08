"""Where things happen they are counted: claims, lost leases, verdicts, requests, memory."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from coven.bell import SilentBell
from coven.clock import ManualClock, SystemClock
from coven.errors import GitHubUnavailable
from coven.github.factory import GitHub
from coven.github.transport import Request, Transport
from coven.governance.actions import FilesystemWrite
from coven.governance.refusal import ActionRefused
from coven.governance.wire import Seam
from coven.metrics import (
    ATTEMPTS,
    GITHUB_CALLS,
    QUEUE_WAIT,
    REAPED,
    SUM,
    UPKEEP,
    VERDICTS,
    Meter,
    Part,
)
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar, Settings
from coven.store.engine import Store
from tests.ledger import NOW, put
from tests.scripted_github import Answer, scripted_github
from tests.support.governance import office
from worker import upkeep
from worker.claim import claim, claim_next


@pytest.fixture
def services(sqlite_store: Store, tmp_path: Path) -> Services:
    familiar = Familiar(id="cody", display_name="Cody", bot_username="cody[bot]")
    settings = Settings.model_validate(
        {"server": {"state_dir": tmp_path}, "familiars": [familiar.model_dump()]}
    )
    return Services(
        settings=settings,
        store=sqlite_store,
        github=cast(GitHub, None),
        clock=ManualClock(NOW),
        seam=Seam(),
        bell=SilentBell(),
        redactor=Redactor(),
        secret_key=b"k" * 32,
    )


def grown(meter: Meter) -> dict[Part, float]:
    return meter.take()[0]


def test_a_first_claim_tells_how_long_it_waited(services: Services) -> None:
    task = put(services.store)
    cast(ManualClock, services.clock).advance(30)
    assert claim_next(services, task, "w") is not None
    assert grown(services.meter)[Part(QUEUE_WAIT.name, ("review",), SUM)] == 30
    cast(ManualClock, services.clock).advance(3_600)
    upkeep.reap(services)
    cast(ManualClock, services.clock).advance(3_600)
    grown(services.meter)
    assert claim_next(services, task, "w") is not None
    assert not any(part.metric == QUEUE_WAIT.name for part in grown(services.meter))


def test_who_gets_nothing_waited_for_nothing(services: Services) -> None:
    task = put(services.store)
    assert claim(services, task, "w") is not None
    grown(services.meter)
    assert claim(services, task, "w") is None
    assert grown(services.meter) == {}


def test_a_lost_lease_is_an_attempt_that_ended(services: Services) -> None:
    task = put(services.store)
    assert claim(services, task, "w") is not None
    grown(services.meter)
    cast(ManualClock, services.clock).advance(services.settings.worker.lease_secs + 1)
    upkeep.reap(services)
    found = grown(services.meter)
    assert found[Part(REAPED.name, ())] == 1
    assert found[Part(ATTEMPTS.name, ("review", "lost"))] == 1
    upkeep.reap(services)
    assert grown(services.meter) == {}


def test_a_job_counts_once_per_tick(services: Services) -> None:
    job = upkeep.JOBS[0]
    for _ in range(3):
        upkeep.perform(services, job)
    assert grown(services.meter)[Part(UPKEEP.name, (job.name, "done"))] == 1


def test_verdicts_are_counted_by_severity_and_kind(sqlite_store: Store, tmp_path: Path) -> None:
    desk = office(sqlite_store, tmp_path)
    desk.admin.add("X1", "filesystem_write", '{"glob":"/srv/no/**"}', "refuse", "not there")
    desk.gate.check(FilesystemWrite("/srv/yes"), "p")
    with pytest.raises(ActionRefused):
        desk.gate.check(FilesystemWrite("/srv/no/x"), "p")
    assert grown(desk.gate.meter) == {
        Part(VERDICTS.name, ("allow", "filesystem_write")): 1,
        Part(VERDICTS.name, ("refuse", "filesystem_write")): 1,
    }


def test_requests_are_counted_by_operation_and_answer() -> None:
    meter, clock = Meter(), SystemClock()
    with scripted_github() as hub:
        hub.answer("GET /repos/o/r", Answer(404, {"message": "Not Found"}))
        transport = Transport(
            hub.url, user_agent="t", api_version="1", clock=clock, seam=Seam(), meter=meter
        )
        transport.send(Request("repository", "GET", "/repos/o/r"), None, clock.monotonic() + 5)
    nobody = Transport(
        "http://127.0.0.1:9", user_agent="t", api_version="1", clock=clock, seam=Seam(), meter=meter
    )
    with pytest.raises(GitHubUnavailable):
        nobody.send(Request("repository", "GET", "/repos/o/r"), None, clock.monotonic() + 5)
    found = grown(meter).items()
    calls = {part.labels: by for part, by in found if part.metric == GITHUB_CALLS.name}
    assert calls == {("repository", "404"): 1, ("repository", "none"): 1}


def test_each_transition_of_a_task_is_one_line(services: Services) -> None:
    ends = (
        ("task_queued_again", "lost", "queued"),
        ("task_ended", "lost", "failed"),
    )
    for attempts_left, (event, outcome, state) in zip((3, 1), ends, strict=True):
        task = put(services.store, max_attempts=attempts_left)
        assert claim(services, task, "w") is not None
        cast(ManualClock, services.clock).advance(services.settings.worker.lease_secs + 1)
        with capture_logs() as lines:
            upkeep.reap(services)
        [line] = [each for each in lines if each["event"].startswith("task_")]
        assert (line["event"], line["outcome"], line["state"]) == (event, outcome, state)
        assert line["task"] == task
