"""What only walls can enforce, tried from inside them."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.integration.runtime_kit import PYTHON, backend_named, python, run, shell
from worker.runtime.bubblewrap import Bubblewrap


@pytest.fixture
def walls() -> Bubblewrap:
    backend = backend_named("bubblewrap")
    assert isinstance(backend, Bubblewrap)
    return backend


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """A checkout beside things that a session must not see."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "private-key.pem").write_text("the App's key")
    (tmp_path / "readable").mkdir()
    (tmp_path / "readable" / "object").write_text("shared object")
    tree = tmp_path / "attempt" / "tree"
    tree.mkdir(parents=True)
    return tree


def test_the_self_test_passes(walls: Bubblewrap) -> None:
    assert walls.probe() == []


def test_only_named_folders_are_visible(walls: Bubblewrap, attempt: Path) -> None:
    root = attempt.parents[1]
    script = f"ls {root}; cat {root}/state/private-key.pem; cat {root}/readable/object"
    end = run(walls, attempt, shell(script), readable=(root / "readable",))
    assert "state" not in end.stdout_tail.split()
    assert "the App's key" not in end.stdout_tail
    assert "shared object" in end.stdout_tail


@pytest.mark.parametrize(
    "target",
    ["/usr/planted", "/etc/planted", "/planted", "/dev/planted", "{root}/planted",
     "{root}/readable/planted"],
)  # fmt: skip
def test_writing_outside_the_attempt_fails(walls: Bubblewrap, attempt: Path, target: str) -> None:
    root = attempt.parents[1]
    path = target.format(root=root)
    end = run(walls, attempt, shell(f"echo x > {path}"), readable=(root / "readable",))
    assert not Path(path).exists()
    # A parent of the attempt below /tmp is a folder of the session's own /tmp.
    assert end.exit_code != 0 or path.startswith("/tmp/")


def test_writing_inside_the_attempt_works(walls: Bubblewrap, attempt: Path) -> None:
    end = run(walls, attempt, shell("echo kept > made; echo gone > /tmp/made"))
    assert end.exit_code == 0
    assert (attempt / "made").read_text() == "kept\n"
    assert not Path("/tmp/made").exists()


def test_our_processes_and_their_environment_are_invisible(
    walls: Bubblewrap, attempt: Path
) -> None:
    code = """
import os, json
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
environs = [open(f"/proc/{pid}/environ", "rb").read().decode() for pid in pids]
print(json.dumps({"pids": pids, "environs": environs}))
"""
    end = run(walls, attempt, python(code))
    seen = json.loads(end.stdout_tail)
    assert max(seen["pids"]) < 20
    names = {
        item.partition("=")[0] for text in seen["environs"] for item in text.split("\0") if item
    }
    assert names <= {"PATH", "HOME", "LC_ALL", "PWD", "COVEN_SESSION", "COVEN_SUPERVISOR"}


def test_there_are_no_capabilities_and_no_further_namespaces(
    walls: Bubblewrap, attempt: Path
) -> None:
    end = run(walls, attempt, shell("grep CapEff /proc/self/status; unshare -U true; echo $?"))
    assert "CapEff:\t0000000000000000" in end.stdout_tail
    assert end.stdout_tail.splitlines()[-1] != "0"


@pytest.mark.parametrize(("network", "reached"), [(True, True), (False, False)])
def test_the_network_can_be_shut(
    walls: Bubblewrap, attempt: Path, network: bool, reached: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        end = run(walls, attempt, python(code), network=network)
    assert (end.exit_code == 0) is reached


def test_shared_memory_is_bounded(walls: Bubblewrap, attempt: Path) -> None:
    end = run(walls, attempt, shell("head -c 700000000 /dev/zero > /dev/shm/f; echo $?"))
    assert end.stdout_tail.strip() != "0"


def test_a_folder_that_is_not_there_is_a_spawn_error(walls: Bubblewrap, attempt: Path) -> None:
    end = run(walls, attempt, shell("exit 0"), readable=(attempt / "missing",))
    assert end.spawn_error is not None
    assert "missing" in end.spawn_error


def test_git_can_use_a_readable_object_store(walls: Bubblewrap, attempt: Path) -> None:
    script = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    end = run(walls, attempt, shell(script + " && git rev-parse HEAD"))
    assert (end.exit_code, len(end.stdout_tail.strip())) == (0, 40), end.stderr_tail


def test_a_missing_bwrap_is_named(tmp_path: Path) -> None:
    walls = Bubblewrap((PYTHON,), program="bwrap-that-is-not-there")
    assert walls.probe() == ["bwrap is not installed: install the package bubblewrap"]
    end = run(walls, tmp_path, shell("exit 0"))
    assert end.spawn_error is not None
    assert "install" in end.spawn_error
