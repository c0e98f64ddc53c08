"""What the adapter adds to a session: from the claim to the spawn, and from the exit to the end."""

from __future__ import annotations

import statistics
import subprocess
from functools import partial
from pathlib import Path

from coven.cli.ledger import list_tasks
from coven.clock import SystemClock
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.sandbox.stack import DemoFamiliar
from coven.store import attempts
from tests.bench.report import median, ms, ratio, table
from tests.e2e.kit import BAD_CODE, make_repo, running
from worker.runtime.backend import Backend
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.host import Host
from worker.runtime.session import SessionSpec
from worker.runtime.supervise import run_session

TASKS = 12
ROUNDS = 15


def measure(folder: Path) -> None:
    """Print both tables."""
    bare = median(ROUNDS, lambda _: subprocess.run(["/bin/true"], env={}))  # noqa: TID251
    rows: list[tuple[object, ...]] = [("empty spawn (true)", ms(bare), "1.00x")]
    backends: list[Backend] = [Host(), Bubblewrap()]
    supervised = 0.0
    for backend in backends:
        if backend.name != "host" and backend.probe():
            rows.append((f"{backend.name}: not available here", "", ""))
            continue
        took = median(ROUNDS, partial(_in_turn, folder, backend))
        supervised = supervised or took
        rows.append((f"supervised empty session, {backend.name}", ms(took), ratio(took, bare)))
    spawn, end, whole, runtime = _tasks(folder / "stack")
    rows += [
        ("claim to spawn (2 looks, checkout, brief)", ms(spawn), ratio(spawn, supervised)),
        ("exit to terminal state (judging, publication stated)", ms(end), ratio(end, supervised)),
        ("the reference runtime itself", ms(runtime), ratio(runtime, supervised)),
        ("whole attempt", ms(whole), ratio(whole, supervised)),
    ]
    table(
        f"Adapter overhead per task (median of {TASKS} reviews; sessions are compared to the empty "
        "spawn, tasks to the supervised empty session on host)",
        ["WHAT", "TIME", "RATIO"],
        rows,
    )


def _in_turn(folder: Path, backend: Backend, _: int) -> None:
    _empty(folder, backend)


def _empty(folder: Path, backend: Backend) -> None:
    spec = SessionSpec(
        argv=("/bin/true",),
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        cwd=folder,
        writable=(folder,),
        readable=(),
        timeout_secs=30,
        grace_secs=1,
    )
    end = run_session(spec, backend, Seam(), SystemClock(), Redactor(), lambda: None, 5)
    if end.exit_code != 0:
        raise RuntimeError(f"the empty session failed: {end}")


def _tasks(folder: Path) -> tuple[float, float, float, float]:
    """Medians over real tasks of a running product: to the spawn, to the end, whole, session."""
    familiars = (DemoFamiliar("quick", "quick-familiar", "sandbox:exit-0"),)
    with running(folder, {"review": {"pull_request": "false"}}, familiars) as product:
        repo = make_repo(product, "acme/bench")
        for number in range(TASKS):
            files = {f"part{number}.py": BAD_CODE}
            pull = repo.pull(files, branch=f"b{number}", deliver=False)
            repo.say(pull["number"], "@quick-familiar review")
            product.settle(60)
        with product.store.read() as tx:
            found = [
                attempt
                for task in list_tasks(tx, None, None, 100)
                for attempt in attempts.of_task(task.installation_id, tx, task.id)
            ]
    timings = [attempt.timings or {} for attempt in found]
    if len(timings) != TASKS:
        raise RuntimeError(f"{len(timings)} attempts instead of {TASKS}")
    names = ("claim_to_spawn", "exit_to_terminal", "total", "session")
    return tuple(statistics.median(each[name] for each in timings) for name in names)  # type: ignore[return-value]
