"""Backend ``host``: the guest runs as the worker's own user. For one tenant that trusts itself."""

from __future__ import annotations

import os

from coven.errors import ConfigurationError
from worker.runtime.backend import Exit, Plain, Prepared, resolve_program
from worker.runtime.session import SessionSpec


class Host(Plain):
    """No walls, only supervision."""

    name = "host"
    spare: tuple[str, ...] = ()
    sets_no_new_privs = False

    def prepare(self, spec: SessionSpec) -> Prepared:
        env = {**spec.env, **spec.secrets_env}
        program = resolve_program(spec.argv[0], env.get("PATH", ""))
        if program is None:
            raise ConfigurationError(
                f"{spec.argv[0]!r} is not an executable file: set worker.coven_code_bin"
            )
        return Prepared((program, *spec.argv[1:]), env)

    def read_exit(self, exit_code: int | None, number: int | None, stderr: str) -> Exit:
        return Exit(exit_code, number)

    def probe(self) -> list[str]:
        if os.geteuid() == 0:
            return [
                "worker.backend = host runs sessions as root: start the worker as a user of its "
                "own, or choose bubblewrap"
            ]
        return []

    def describe(self) -> list[str]:
        return [
            "enforced: environment from an allow-list, own session, deadline, the whole process "
            "tree killed, no new privileges, memory, processes, file size and disk (by watching)",
            "not enforced: files (the guest reads and writes whatever the worker's user can, "
            "the configuration and other checkouts included), network, the process list, and "
            "RLIMIT_NPROC when the worker is root",
        ]
