"""Each limit, broken on purpose, becomes a named breach and ends the tree."""

from __future__ import annotations

import resource
import time
import uuid
from pathlib import Path

import pytest

from tests.integration.runtime_kit import backend_named, processes_with, python, run, shell
from worker.runtime.backend import Backend
from worker.runtime.session import Limits


@pytest.fixture(params=["host", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return backend_named(request.param)


def test_memory_of_the_whole_tree(backend: Backend, tmp_path: Path) -> None:
    code = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        break
held = b"x" * 40_000_000
time.sleep(300)
"""
    end = run(backend, tmp_path, python(code), limits=Limits(memory_bytes=100_000_000))
    assert end.breach == "memory"
    assert end.duration_secs < 10


def test_memory_that_children_inherited_counts_once(backend: Backend, tmp_path: Path) -> None:
    code = """
import os, time
held = bytearray(b"x") * 60_000_000
children = 4
for _ in range(children):
    if os.fork() == 0:
        time.sleep(300)
time.sleep(1.2)
"""
    end = run(backend, tmp_path, python(code), limits=Limits(memory_bytes=150_000_000))
    assert (end.breach, end.exit_code) == (None, 0)


def test_processes(backend: Backend, tmp_path: Path) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    script = f"for i in $(seq 60); do sh -c 'sleep 300; : {mark}' & done; wait"
    end = run(backend, tmp_path, shell(script), limits=Limits(processes=30))
    assert end.breach == "processes"
    assert processes_with(mark) == []


def test_one_file(backend: Backend, tmp_path: Path) -> None:
    end = run(
        backend, tmp_path, shell("exec head -c 5000000 /dev/zero > big"),
        limits=Limits(file_bytes=1_000_000),
    )  # fmt: skip
    assert end.breach == "file size"
    assert (tmp_path / "big").stat().st_size <= 1_000_000


def test_a_file_limit_that_a_guest_swallowed_is_named_all_the_same(
    backend: Backend, tmp_path: Path
) -> None:
    script = "head -c 5000000 /dev/zero > big; exit 0"
    end = run(backend, tmp_path, shell(script), limits=Limits(file_bytes=1_000_000))
    assert (end.exit_code, end.breach) == (0, "file size")


def test_the_whole_workspace(backend: Backend, tmp_path: Path) -> None:
    script = "for i in $(seq 40); do head -c 1000000 /dev/zero > f$i; done; sleep 300"
    end = run(backend, tmp_path, shell(script), limits=Limits(workspace_bytes=10_000_000))
    assert end.breach == "disk"
    assert end.duration_secs < 10


def test_output_where_it_is_limited(tmp_path: Path) -> None:
    end = run(backend_named("host"), tmp_path, shell("yes"), limits=Limits(output_bytes=1_000_000))
    assert end.breach == "output"


def test_address_space_of_one_process_where_it_is_limited(tmp_path: Path) -> None:
    code = "x = bytearray(900_000_000)"
    end = run(
        backend_named("host"), tmp_path, python(code), limits=Limits(address_bytes=500_000_000)
    )
    assert end.exit_code == 1
    assert "MemoryError" in end.stderr_tail


def test_output_without_end_costs_no_memory_and_does_not_hang(
    backend: Backend, tmp_path: Path
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    script = "yes 0123456789abcdef | head -c 500000000; echo the very end"
    end = run(backend, tmp_path, shell(script), timeout_secs=60)
    assert end.exit_code == 0
    assert end.stdout_tail.endswith("the very end\n")
    assert len(end.stdout_tail.encode()) <= 64 * 1024
    assert time.monotonic() - begun < 30
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024, "the resident set grew by more than 64 MiB"


def test_both_streams_are_drained_at_the_same_time(tmp_path: Path) -> None:
    code = """
import os
for _ in range(200):
    os.write(2, b"e" * 65536)
    os.write(1, b"o" * 65536)
"""
    end = run(backend_named("host"), tmp_path, python(code))
    assert end.exit_code == 0
    assert end.stderr_tail == "e" * 65536
    assert end.stdout_tail == "o" * 65536


def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(
    backend: Backend, tmp_path: Path
) -> None:
    begun = time.monotonic()
    end = run(backend, tmp_path, shell("setsid sleep 300 & echo done"))
    assert end.stdout_tail == "done\n"
    assert time.monotonic() - begun < 5
