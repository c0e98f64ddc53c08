from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gunicorn.config import KNOWN_SETTINGS  # type: ignore[import-untyped]

from coven.cli import exits, ledger, processes
from coven.cli.ledger import Cancel
from coven.cli.main import main
from coven.cli.output import plain
from coven.cli.supervisor import Printer
from coven.clock import ManualClock
from coven.settings.models import Settings, Worker
from coven.store import attempts, purges, tasks
from coven.store.attempts import AttemptEnd
from coven.store.deliveries import Received, record
from coven.store.engine import Store
from coven.store.tasks import Task
from coven.values import (
    DeliveryId,
    InstallationId,
    RepoId,
    TaskId,
    TaskState,
)
from tests.ledger import new_task
from webhooks import gunicorn_conf

ONE = InstallationId(1)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The console entry in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coven-github", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(f'[storage]\npath = "{sqlite_url.removeprefix("sqlite:///")}"\n')
    return path


def add(store: Store, clock: ManualClock, thread: int = 7, owner: int = 1) -> Task:
    now = clock.now()
    new = new_task(
        installation_id=InstallationId(owner),
        repo_id=RepoId(5),
        repo_owner="acme",
        repo_name="web",
        thread=thread,
        title="A \x1b[31mtitle",
        source_at=now,
        semantic_key=f"review:5:{thread}:{owner}",
        created_at=now,
        payload={"body": "untrusted"},
    )
    with store.write() as tx:
        assert tasks.insert_new(new.installation_id, tx, new)
    found = state_of(store, new.id, owner)
    assert found is not None
    return found


def state_of(store: Store, task_id: TaskId, owner: int = 1) -> Task:
    with store.read() as tx:
        found = tasks.get(InstallationId(owner), tx, task_id)
    assert found is not None
    return found


def test_purges_are_shown_with_what_they_removed(
    run: Run, config: Path, sqlite_store: Store
) -> None:
    assert run("purges", "list", "--config", str(config))[1] == "No purges.\n"
    now, tenant = datetime(2026, 1, 2, tzinfo=UTC), InstallationId(41)
    with sqlite_store.write() as tx:
        purges.request(tenant, tx, "the App was uninstalled", now)
        (wanted,) = purges.of(tenant, tx)
        purges.note(tenant, tx, wanted, "memory", 3)
    code, out, _ = run("purges", "list", "--config", str(config))
    assert code == 0
    for word in ("41", "the App was uninstalled", "pending", "memory 3"):
        assert word in out
    assert json.loads(run("purges", "list", "--json", "--config", str(config))[1])[0]["steps"] == {
        "memory": 3
    }


# --- shape -----------------------------------------------------------------------------------


def test_only_what_exists_is_offered(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    offered = [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line.strip()]
    known = [
        "up",
        "web",
        "worker",
        "control",
        "beat",
        "doctor",
        "demo",
        "version",
        "tasks",
        "deliveries",
        "rules",
        "governance",
        "identity",
        "db",
    ]
    assert [word for word in offered if word in known] == known
    assert "Exit codes" in out


def test_help_works_without_any_configuration(run: Run) -> None:
    for words in (["tasks"], ["tasks", "show"], ["deliveries"], ["db"], ["up"], ["doctor"]):
        code, out, err = run(*words, "--help")
        assert code == 0, words
        assert "Usage:" in out + err


def test_version_for_people_and_programs(run: Run) -> None:
    assert run("version")[1].startswith("coven-github ")
    assert json.loads(run("version", "--json")[1])["version"]


@pytest.mark.parametrize("words", [["tasks", "list", "--limit", "0"], ["nonsense"], ["tasks", "x"]])
def test_wrong_usage_is_exit_code_two(run: Run, words: list[str]) -> None:
    assert run(*words)[0] == exits.UNUSABLE


def test_a_broken_configuration_is_lines_not_a_traceback(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[servr]\n[worker]\nmax_retries = 99\n")
    for words in (["tasks", "list"], ["db", "upgrade"], ["web"], ["up"], ["worker"]):
        code, _, err = run(*words, "--config", str(path))
        assert code == exits.UNUSABLE
        assert err.count("coven-github: ") == 2, err
        assert "Traceback" not in err


def test_a_missing_database_is_named_and_not_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[storage]\npath = "none.db"\n')
    code, _, err = run("tasks", "list", "--config", "c.toml")
    assert code == exits.UNUSABLE
    assert "db upgrade" in err
    assert not (tmp_path / "none.db").exists()


def test_an_old_schema_names_the_next_step(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[storage]\npath = "empty.db"\n')
    (tmp_path / "empty.db").write_bytes(b"")
    code, _, err = run("tasks", "list", "--config", "c.toml")
    assert code == exits.UNUSABLE
    assert "coven-github db upgrade" in err


def test_db_upgrade_makes_a_database_and_may_be_repeated(run: Run, tmp_path: Path) -> None:
    (tmp_path / "coven-github.toml").write_text('[storage]\npath = "new.db"\n')
    for _ in range(2):
        code, out, _ = run("db", "upgrade")
        assert code == 0
        assert "sqlite" in out
    assert run("tasks", "list")[1] == "No tasks.\n"


def test_a_database_that_is_away_is_exit_code_four(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[storage]\ndatabase_url = "postgresql://u:hidden-word@127.0.0.1:1/d"\n'
    )
    code, _, err = run("tasks", "list", "--config", "c.toml")
    assert code == exits.UNAVAILABLE
    assert "hidden-word" not in err


# --- tasks and deliveries --------------------------------------------------------------------


def test_tasks_of_all_installations_are_listed_newest_first(
    run: Run, config: Path, sqlite_store: Store, clock: ManualClock
) -> None:
    first, second = add(sqlite_store, clock), add(sqlite_store, clock, owner=2)
    listed = json.loads(run("tasks", "list", "--json", "--config", str(config))[1])
    assert [task["id"] for task in listed] == [second.id, first.id]
    mine = json.loads(
        run("tasks", "list", "--json", "--installation", "1", "--config", str(config))[1]
    )
    assert [task["id"] for task in mine] == [first.id]
    none = run("tasks", "list", "--state", "failed", "--config", str(config))[1]
    assert none == "No tasks.\n"


def test_a_task_is_shown_by_the_beginning_of_its_id_without_capabilities(
    run: Run, config: Path, sqlite_store: Store, clock: ManualClock
) -> None:
    task = add(sqlite_store, clock)
    with sqlite_store.write() as tx:
        tasks.claim(ONE, tx, task.id, "the-lease-token", clock.now(), 60)
    code, out, _ = run("tasks", "show", task.id[:8], "--config", str(config))
    assert code == 0
    assert task.id in out
    code, out, _ = run("tasks", "show", task.id, "--json", "--config", str(config))
    assert json.loads(out)["task"]["state"] == "running"
    assert "the-lease-token" not in out


def test_a_task_shows_what_its_attempts_printed_and_what_was_tolerated(
    run: Run, config: Path, sqlite_store: Store, clock: ManualClock
) -> None:
    task = add(sqlite_store, clock)
    now, lease = clock.now(), "l" * 32
    with sqlite_store.write() as tx:
        claimed = tasks.claim(ONE, tx, task.id, lease, now, 60)
        assert claimed is not None
        attempts.start(ONE, tx, claimed, "w", now)
        end = AttemptEnd(
            "killed",
            "ended by signal 9",
            signal=9,
            tolerated=["branch: cody/other instead of the reserved one"],
            stdout_tail="".join(f"line {n}\n" for n in range(30)),
            stderr_tail="\x1b[31mpanic\n",
        )
        attempts.finish(ONE, tx, task.id, lease, now, end)
    code, out, _ = run("tasks", "show", task.id, "--config", str(config))
    assert code == 0
    assert "ended by signal 9" in out
    assert "cody/other instead" in out
    assert "last 20 of 30 lines" in out
    assert "line 29" in out
    assert "line 9\n" not in out
    assert "[31mpanic" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("name", ["ffff", "no-such-id", "%", "f" * 40])
def test_an_unknown_task_is_exit_code_three(
    run: Run, config: Path, sqlite_store: Store, clock: ManualClock, name: str
) -> None:
    add(sqlite_store, clock)
    for verb in ("show", "cancel"):
        code, _, err = run("tasks", verb, name, "--config", str(config))
        assert code == exits.NOT_FOUND
        assert "tasks list" in err


def test_cancel_by_command(run: Run, config: Path, sqlite_store: Store, clock: ManualClock) -> None:
    task = add(sqlite_store, clock)
    code, out, _ = run("tasks", "cancel", task.id, "--config", str(config))
    assert code == 0
    assert "will not start" in out
    assert state_of(sqlite_store, task.id).cancel_requested_at is not None
    assert "before" in run("tasks", "cancel", task.id, "--config", str(config))[1]


def test_deliveries_are_listed_with_their_routing(
    run: Run, config: Path, sqlite_store: Store, clock: ManualClock
) -> None:
    with sqlite_store.write() as tx:
        for number, routing in enumerate(["ignored:ping", "rejected:not_json"]):
            received = Received(
                id=DeliveryId(f"d-{number}"),
                event="issues",
                action="opened",
                body=b"{}",
                routing=routing,
                received_at=clock.now() + timedelta(seconds=number),
            )
            assert record(tx, received)
    listed = json.loads(run("deliveries", "list", "--json", "--config", str(config))[1])
    assert [d["id"] for d in listed] == ["d-1", "d-0"]
    bad = run("deliveries", "list", "--routing", "rejected", "--config", str(config))[1]
    assert "not_json" in bad
    assert "ignored" not in bad


def test_a_cancelled_queued_task_is_not_claimed_any_more(store: Store, clock: ManualClock) -> None:
    task = add(store, clock)
    with store.write() as tx:
        assert ledger.cancel(tx, task, clock.now()) is Cancel.SETTLED_SOON
        assert tasks.claim(ONE, tx, task.id, "t", clock.now(), 60) is None
        assert ledger.cancel(tx, task, clock.now()) is Cancel.ALREADY_ASKED


def test_a_running_task_hears_of_the_cancel_at_its_next_heartbeat(
    store: Store, clock: ManualClock
) -> None:
    task = add(store, clock)
    with store.write() as tx:
        running = tasks.claim(ONE, tx, task.id, "t", clock.now(), 60)
        assert running is not None
        assert ledger.cancel(tx, running, clock.now()) is Cancel.ASKED
        pulse = tasks.heartbeat(ONE, tx, task.id, "t", clock.now(), 60)
    assert pulse.cancel_reason == ledger.CANCEL_REASON


def test_a_waiting_task_has_waited_enough_and_a_finished_one_stays(
    store: Store, clock: ManualClock
) -> None:
    task = add(store, clock)
    later = clock.now() + timedelta(days=14)
    with store.write() as tx:
        assert tasks.claim(ONE, tx, task.id, "t", clock.now(), 60)
        waiting = tasks.wait(ONE, tx, task.id, "t", clock.now(), "approval", later)
        assert waiting is not None
        assert ledger.cancel(tx, waiting, clock.now()) is Cancel.SETTLED_SOON
        after = tasks.get(ONE, tx, task.id)
        assert after is not None
        assert after.expires_at == clock.now()
        ended = tasks.settle_idle(
            ONE, tx, task.id, clock.now(), tasks.Ending(TaskState.CANCELLED, "stopped")
        )
        assert ended is not None
        assert ledger.cancel(tx, ended, clock.now()) is Cancel.OVER


# --- processes and output --------------------------------------------------------------------


def test_processes_carry_no_secret_in_their_arguments() -> None:
    settings = Settings.model_validate(
        {
            "github": {"webhook_secret": "the-webhook-secret"},
            "queue": {"broker_url": "redis://:the-password@h/0"},
            "storage": {"database_url": "postgresql+psycopg://u:the-password@h/d"},
        }
    )
    for make in (processes.web, processes.worker, processes.control, processes.beat):
        assert "the-" not in " ".join(make(settings).argv)


def test_a_worker_gets_the_time_it_was_promised_to_drain() -> None:
    settings = Settings(worker=Worker(drain_secs=120, grace_secs=10))
    assert processes.worker(settings).patience_secs > 130
    assert processes.web(settings).patience_secs > gunicorn_conf.graceful_timeout


def test_the_receiver_is_told_each_thing_in_one_place_only() -> None:
    """Arguments win over the file, so what stands in both could differ without anybody noticing."""
    flags = {
        word.partition("=")[0].removeprefix("--").replace("-", "_")
        for word in processes.web(Settings()).argv
        if word.startswith("--")
    }
    assert not flags & set(vars(gunicorn_conf))
    # What gunicorn does not know it ignores without a word.
    known = {setting.name for setting in KNOWN_SETTINGS}
    told = {name for name in vars(gunicorn_conf) if name.islower() and name[0] != "_"}
    assert told - {"annotations"} <= known


def test_the_configuration_is_handed_on_by_its_absolute_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    env = processes.environment(Path("c.toml"), {"PATH": "/bin"})
    assert env == {"PATH": "/bin", "COVEN_GITHUB_CONFIG": str(tmp_path / "c.toml")}
    assert processes.environment(None, {"PATH": "/bin"}) == {"PATH": "/bin"}


def test_every_line_carries_the_name_of_its_process() -> None:
    out = io.StringIO()
    printer = Printer(out, ["up", "worker"], colours=False)
    printer.line("up", "a")
    printer.line("worker", "b")
    assert out.getvalue() == "up     | a\nworker | b\n"


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[31m\r\nb\u202ec") == "a [31m  b c"
