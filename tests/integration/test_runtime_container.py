"""The container backend against a double of the engine's command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from coven.clock import SystemClock
from coven.contract.exit_codes import ProcessEnd
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.settings.models import Container as ContainerSettings
from tests.integration.runtime_kit import PYTHON, spec_for
from worker.runtime.container import Container
from worker.runtime.orphans import supervisor_mark, sweep_containers
from worker.runtime.session import Limits
from worker.runtime.supervise import run_session

IMAGE = "registry.example/coven-code@sha256:" + "ab" * 32

ENGINE = """#!{python} -IS
import json, os, sys, time
log = {log!r}
with open(log, "a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ)}}) + "\\n")
verb = sys.argv[1]
behaviour = open({behaviour!r}).read()
if verb == "run":
    if behaviour == "hang":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    if behaviour.startswith("exit "):
        print("docker: no such image", file=sys.stderr)
        sys.exit(int(behaviour[5:]))
    print("worked with", os.environ.get("COVEN_GIT_TOKEN"))
elif verb == "inspect":
    print("true" if behaviour == "exit 137" else "false")
elif verb == "ps":
    print(behaviour)
"""


class Engine:
    """A program that takes the engine's arguments, writes them down and behaves as told."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls.jsonl"
        self._behaviour = folder / "behaviour"
        self.program = folder / "docker"
        self.program.write_text(
            ENGINE.format(
                python=PYTHON / "bin" / "python3", log=str(self._log),
                behaviour=str(self._behaviour),
            )
        )  # fmt: skip
        self.program.chmod(0o755)
        self.behave("work")

    def behave(self, how: str) -> None:
        self._behaviour.write_text(how)

    def calls(self, verb: str) -> list[dict[str, object]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found = [json.loads(line) for line in lines]
        return [call for call in found if call["argv"][0] == verb]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    folder = tmp_path / "engine"
    folder.mkdir()
    return Engine(folder)


@pytest.fixture
def container(engine: Engine) -> Container:
    settings = ContainerSettings(image=IMAGE, docker_bin=str(engine.program))
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/worker", "DATABASE_URL": "secret-db"}
    return Container(settings, environ, uid=1000, gid=1000)


def go(container: Container, folder: Path, **changes: object) -> ProcessEnd:
    spec = spec_for(folder, ("coven-code", "--headless", "--context", "/b"), **changes)
    return run_session(
        spec, container, Seam(), SystemClock(), Redactor(), lambda: None, 30.0
    )  # fmt: skip


def _pairs(argv: list[str], name: str) -> list[str]:
    return [argv[i + 1] for i, item in enumerate(argv) if item == name]


def test_the_walls_are_in_the_arguments(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    brief = tmp_path / "brief.json"
    brief.write_text("{}")
    end = go(
        container, tmp_path, readable=(brief,), network=True,
        limits=Limits(file_bytes=12345, processes=40),
    )  # fmt: skip
    assert end.exit_code == 0
    argv = engine.calls("run")[0]["argv"]
    assert isinstance(argv, list)
    for flag in ("--init", "--read-only"):
        assert flag in argv
    assert _pairs(argv, "--user") == ["1000:1000"]
    assert _pairs(argv, "--cap-drop") == ["ALL"]
    assert _pairs(argv, "--security-opt") == ["no-new-privileges"]
    assert _pairs(argv, "--pids-limit") == ["40"]
    assert _pairs(argv, "--memory") == _pairs(argv, "--memory-swap") == ["2g"]
    assert "fsize=12345" in _pairs(argv, "--ulimit")
    assert _pairs(argv, "--network") == ["bridge"]
    assert _pairs(argv, "--workdir") == [str(tmp_path)]
    assert f"type=bind,source={tmp_path},target={tmp_path}" in _pairs(argv, "--mount")
    assert f"type=bind,source={brief},target={brief},readonly" in _pairs(argv, "--mount")
    assert argv[argv.index("--entrypoint") :] == [
        *("--entrypoint", "coven-code", IMAGE),
        *("--headless", "--context", "/b"),
    ]


def test_no_network_when_it_is_off(engine: Engine, container: Container, tmp_path: Path) -> None:
    go(container, tmp_path, network=False)
    argv = engine.calls("run")[0]["argv"]
    assert isinstance(argv, list)
    assert _pairs(argv, "--network") == ["none"]


def test_secrets_travel_by_name_and_never_as_an_argument(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    token = "tok-0123456789abcdef"
    both = {"COVEN_GIT_TOKEN": token}
    end = go(container, tmp_path, secrets_env=both, env={"LC_ALL": "C.UTF-8", **both})
    call = engine.calls("run")[0]
    argv, env = call["argv"], call["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    assert "COVEN_GIT_TOKEN" in _pairs(argv, "-e")
    assert not any(token in item for item in argv)
    assert env["COVEN_GIT_TOKEN"] == token
    assert "DATABASE_URL" not in env
    assert token not in end.stdout_tail
    assert "[redacted]" in end.stdout_tail


def test_the_container_is_removed_by_name_afterwards(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    go(container, tmp_path)
    argv = engine.calls("run")[0]["argv"]
    removed = engine.calls("rm")[0]["argv"]
    assert isinstance(argv, list)
    assert isinstance(removed, list)
    assert _pairs(argv, "--name")[0] == removed[-1]
    assert engine.calls("kill") == []


def test_a_deadline_kills_the_container_by_name(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    engine.behave("hang")
    end = go(container, tmp_path, timeout_secs=0.5, grace_secs=0.2)
    assert end.timed_out
    argv = engine.calls("run")[0]["argv"]
    killed = engine.calls("kill")[0]["argv"]
    assert isinstance(argv, list)
    assert killed == ["kill", _pairs(argv, "--name")[0]]
    assert engine.calls("rm")


@pytest.mark.parametrize(
    ("behaviour", "exit_code", "number", "breach"),
    [("exit 3", 3, None, None), ("exit 137", None, 9, "memory"), ("exit 143", None, 15, None)],
)
def test_exit_codes_of_the_engine_are_read(
    engine: Engine, container: Container, tmp_path: Path,
    behaviour: str, exit_code: int | None, number: int | None, breach: str | None,
) -> None:  # fmt: skip
    engine.behave(behaviour)
    end = go(container, tmp_path)
    assert (end.exit_code, end.signal, end.breach) == (exit_code, number, breach)


def test_an_engine_that_refuses_is_a_spawn_error(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    engine.behave("exit 125")
    end = go(container, tmp_path)
    assert end.spawn_error == "docker: no such image"


def test_containers_of_dead_supervisors_are_removed(
    engine: Engine, container: Container, tmp_path: Path
) -> None:
    alive = supervisor_mark(tmp_path)
    engine.behave(
        f"coven-dead\t1:0:{tmp_path}/tree\ncoven-alive\t{alive}\ncoven-other\t1:0:/elsewhere"
    )
    assert sweep_containers(container, tmp_path, Seam()) == 1
    assert [call["argv"] for call in engine.calls("rm")] == [
        ["rm", "--force", "--volumes", "coven-dead"]
    ]
