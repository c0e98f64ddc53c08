"""Backend ``container``: one throw-away container per session through the docker or podman CLI.

Secrets travel as ``-e NAME``: the value is taken from the CLI's own environment and never stands
in an argument list. The folders of the session are mounted at their own paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from coven.errors import ConfigurationError
from coven.settings.models import Container as ContainerSettings
from worker.runtime.backend import SESSION, SUPERVISOR, Exit, Prepared, resolve_program
from worker.runtime.probe import run_probe
from worker.runtime.session import SessionSpec

PINNED = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}\Z")

LABEL = "coven.session"

CLI_NAMES = (
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
)
"""What the CLI itself may take from the worker's environment; the guest gets none of it."""


class Container:
    """Confines a session with a container engine."""

    name = "container"
    spare: tuple[str, ...] = ()
    sets_no_new_privs = True
    own_limits = True

    def __init__(
        self, settings: ContainerSettings, environ: Mapping[str, str], uid: int, gid: int
    ) -> None:
        self._settings = settings
        self._cli_env = {name: environ[name] for name in CLI_NAMES if name in environ}
        self._uid = uid
        self._gid = gid

    def prepare(self, spec: SessionSpec) -> Prepared:
        problems = self.static_problems()
        if problems:
            raise ConfigurationError("; ".join(problems))
        clash = sorted(set(spec.secrets_env) & set(CLI_NAMES))
        if clash:
            raise ConfigurationError(f"worker.env_allow: {clash[0]} belongs to the container CLI")
        chosen = self._settings
        args = [self._engine(), "run", "--init", "--name", _name(spec), "--pull", "missing"]
        args += ["--label", f"{LABEL}={spec.env[SESSION]}"]
        args += ["--label", f"coven.supervisor={spec.env[SUPERVISOR]}"]
        args += ["--user", f"{self._uid}:{self._gid}", "--read-only", "--cap-drop", "ALL"]
        args += ["--security-opt", "no-new-privileges"]
        args += ["--pids-limit", str(min(chosen.pids, spec.limits.processes))]
        args += ["--memory", chosen.memory, "--memory-swap", chosen.memory]
        args += ["--cpus", f"{chosen.cpus:g}"]
        args += ["--ulimit", f"fsize={spec.limits.file_bytes}", "--ulimit", "core=0"]
        args += ["--ulimit", f"nofile={spec.limits.open_files}"]
        args += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={chosen.tmpfs_size}"]  # noqa: S108
        args += ["--network", chosen.network if spec.network else "none"]
        args += ["--stop-timeout", str(max(1, int(spec.grace_secs)))]
        args += ["--workdir", str(spec.cwd)]
        writable = {path.absolute() for path in spec.writable}
        for path in sorted(writable | {path.absolute() for path in spec.readable}):
            if "," in str(path):
                raise ConfigurationError(f"a path with a comma can't be mounted: {path}")
            mount = f"type=bind,source={path},target={path}"
            args += ["--mount", mount if path in writable else f"{mount},readonly"]
        for name, value in sorted(spec.env.items()):
            args += ["-e", f"{name}={value}"]
        for name in sorted(spec.secrets_env):
            args += ["-e", name]
        args += ["--entrypoint", spec.entrypoint or chosen.coven_code_bin, chosen.image]
        return Prepared((*args, *spec.argv[1:]), {**self._cli_env, **spec.secrets_env})

    def read_exit(self, exit_code: int | None, number: int | None, stderr: str) -> Exit:
        """docker-run(1): 125 is the engine's own failure; 128 + n a signal."""
        if number is not None or exit_code is None:
            return Exit(exit_code, number)
        if exit_code == 125:
            last = stderr.rstrip().rpartition("\n")[2]
            return Exit(None, None, spawn_error=last or "the container engine refused to start it")
        if 128 < exit_code <= 128 + 64:
            return Exit(None, exit_code - 128)
        return Exit(exit_code, None)

    @property
    def cli_env(self) -> Mapping[str, str]:
        return self._cli_env

    def kill(self, spec: SessionSpec) -> tuple[str, ...] | None:
        """By name: the CLI's death does not end the container."""
        return (self._engine(), "kill", _name(spec))

    def inspect(self, spec: SessionSpec) -> tuple[str, ...] | None:
        return (self._engine(), "inspect", "--format", "{{.State.OOMKilled}}", _name(spec))

    def finish(self, spec: SessionSpec) -> tuple[str, ...] | None:
        return (self._engine(), "rm", "--force", "--volumes", _name(spec))

    def list_command(self) -> tuple[str, ...]:
        """Every container of ours that still exists, with its supervisor's mark."""
        form = '{{.Names}}\t{{.Label "coven.supervisor"}}'
        return (self._engine(), "ps", "--all", "--filter", f"label={LABEL}", "--format", form)

    def remove_command(self, name: str) -> tuple[str, ...]:
        """Kill and remove one container."""
        return (self._engine(), "rm", "--force", "--volumes", name)

    def static_problems(self) -> list[str]:
        """What is wrong without asking the engine."""
        problems = []
        if not PINNED.match(self._settings.image):
            problems.append(
                "worker.container.image is not pinned: write name@sha256:<64 hex digits>"
            )
        if self._uid == 0:
            problems.append("worker.backend = container needs a worker that is not root")
        if not self._engine_path():
            problems.append(
                f"{self._settings.docker_bin!r} is not installed: set worker.container.docker_bin"
            )
        return problems

    def probe(self) -> list[str]:
        problems = self.static_problems()
        if problems:
            return problems
        problem = run_probe(self, (self._settings.coven_code_bin, "--version"))
        return [problem] if problem else []

    def describe(self) -> list[str]:
        return [
            "enforced: environment from an allow-list, deadline, read-only root, the attempt's "
            "folders only, no capabilities, no new privileges, not root, memory, processes, "
            "file size, processors, image by digest, killed and removed by name",
            "not enforced: which hosts a session may reach on worker.container.network; anybody "
            "who may use the engine can read a running session's environment",
        ]

    def _engine_path(self) -> str | None:
        return resolve_program(self._settings.docker_bin, self._cli_env.get("PATH", os.defpath))

    def _engine(self) -> str:
        return self._engine_path() or self._settings.docker_bin


def _name(spec: SessionSpec) -> str:
    return f"coven-{spec.env[SESSION]}"
