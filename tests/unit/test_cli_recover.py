"""``deliveries recover``: what it asks for, shows and answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from coven.cli import deliveries, exits
from coven.cli.main import build
from coven.clock import ManualClock
from coven.errors import GitHubForbidden, GitHubUnavailable
from coven.github.models import DeliveryPage, HookDelivery
from coven.settings.models import Settings
from coven.store import deliveries as ledger
from coven.store import recoveries
from coven.store.engine import Store
from tests.ledger import NOW, received


def attempt(number: int, guid: str, status: str, ago: int = 600) -> HookDelivery:
    at = NOW - timedelta(seconds=ago)
    code = 202 if status == "OK" else 0
    return HookDelivery(number, guid, at, False, status, code, "issues", "opened", 41, 7)


@dataclass
class Hub:
    pages: list[list[HookDelivery]]
    refuses: set[int] = field(default_factory=set)
    down: bool = False
    asked: list[int] = field(default_factory=list)
    cursors: list[str | None] = field(default_factory=list)

    def list_hook_deliveries(self, cursor: str | None = None) -> DeliveryPage:
        if self.down:
            raise GitHubUnavailable("502", status=502)
        self.cursors.append(cursor)
        number = int(cursor or 0)
        more = str(number + 1) if number + 1 < len(self.pages) else None
        return DeliveryPage(tuple(self.pages[number]), more)

    def redeliver(self, number: int) -> None:
        if number in self.refuses:
            raise GitHubForbidden("no", status=403)
        self.asked.append(number)


@pytest.fixture
def hub() -> Hub:
    first = [attempt(9, "known", "timed out"), attempt(8, "ok", "OK")]
    return Hub([first, [attempt(7, "lost", "timed out")], [attempt(1, "old", "timed out", 9**7)]])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, sqlite_store: Store, hub: Hub, tmp_path: Path) -> Any:
    services = SimpleNamespace(
        settings=Settings(), store=sqlite_store, github=hub, clock=ManualClock(NOW)
    )
    with sqlite_store.write() as tx:
        ledger.record(tx, received(id="known"))
    monkeypatch.setattr(deliveries, "build_services", lambda _: services)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(build(), ["deliveries", "recover", *words])
        return done.exit_code, done.stdout, done.stderr

    return call


def test_what_is_missing_is_asked_for_with_progress(
    run: Any, hub: Hub, sqlite_store: Store
) -> None:
    code, out, err = run()
    assert (code, hub.asked, hub.cursors) == (exits.DONE, [7], [None, "1", "2"])
    assert "asked again" in out
    assert "page 2: 3 attempts" in err
    assert "asked for issues lost again" in err
    with sqlite_store.read() as tx:
        (search,) = recoveries.recent(tx)
    assert (search.seen, search.asked, search.error) == (3, 1, None)
    # What may still be open is looked at again.
    assert search.watermark == NOW - timedelta(seconds=600)


def test_a_dry_run_asks_for_nothing_and_moves_nothing(
    run: Any, hub: Hub, sqlite_store: Store
) -> None:
    code, out, _ = run("--dry-run", "--json")
    assert (code, hub.asked) == (exits.DONE, [])
    assert [missed["guid"] for missed in json.loads(out)["asked"]] == ["lost"]
    with sqlite_store.read() as tx:
        assert recoveries.watermark(tx, recoveries.DELIVERIES) is None


def test_the_next_search_begins_at_the_watermark_unless_all_is_wanted(run: Any, hub: Hub) -> None:
    hub.pages = [[attempt(2, "ok", "OK", 30)], [attempt(1, "lost", "timed out", 3600)]]
    with_mark = run("--json")
    assert [m["guid"] for m in json.loads(with_mark[1])["asked"]] == ["lost"]
    hub.pages = [[attempt(2, "ok", "OK", 30)], [attempt(0, "older", "timed out", 7200)]]
    assert "Nothing is missing" in run()[1]
    assert [m["guid"] for m in json.loads(run("--all", "--json")[1])["asked"]] == ["older"]


def test_what_github_refuses_is_told_and_looked_at_again(run: Any, hub: Hub) -> None:
    hub.refuses = {7}
    code, out, _ = run()
    assert code == exits.FAILED
    assert "refused by GitHub" in out
    hub.refuses = set()
    run()
    assert hub.asked == [7]


def test_a_list_that_cannot_be_read_is_noted_and_moves_nothing(
    run: Any, hub: Hub, sqlite_store: Store
) -> None:
    hub.down = True
    assert run()[0] != exits.DONE
    with sqlite_store.read() as tx:
        (search,) = recoveries.recent(tx)
        assert recoveries.watermark(tx, recoveries.DELIVERIES) is None
    assert search.error == "502"
