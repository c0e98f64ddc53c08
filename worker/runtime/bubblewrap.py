"""Backend ``bubblewrap``: namespaces for an unprivileged user, one empty root per session.

The guest sees the system's programs and the folders that the session names, and nothing else: no
configuration, no ledger, no other tenant's checkout or mirror. Flags: bwrap(1), version 0.8.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from coven.errors import ConfigurationError
from worker.runtime.backend import Exit, Plain, Prepared, resolve_program
from worker.runtime.probe import run_probe
from worker.runtime.session import SessionSpec

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries; links are kept as links."""

ETC = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
)
"""What programs need of ``/etc``: names, certificates, the library cache. No secrets."""

TMP_BYTES = 512 * 2**20


class Bubblewrap(Plain):
    """Confines a session with ``bwrap``."""

    name = "bubblewrap"
    spare = ("bwrap",)
    sets_no_new_privs = True

    def __init__(self, readable: Iterable[Path] = (), program: str = "bwrap") -> None:
        self._readable = tuple(readable)
        self._program = program

    def prepare(self, spec: SessionSpec) -> Prepared:
        env = {**spec.env, **spec.secrets_env}
        bwrap = resolve_program(self._program, os.defpath + ":/usr/local/bin")
        if bwrap is None:
            raise ConfigurationError(
                "bwrap is not installed: install the package bubblewrap, or set worker.backend"
            )
        guest = resolve_program(spec.argv[0], env.get("PATH", ""))
        if guest is None:
            raise ConfigurationError(
                f"{spec.argv[0]!r} is not an executable file: set worker.coven_code_bin"
            )
        walls = self._walls(spec, Path(guest))
        return Prepared((bwrap, *walls, "--", guest, *spec.argv[1:]), env)

    def read_exit(self, exit_code: int | None, number: int | None, stderr: str) -> Exit:
        """bwrap reports a signal as 128 + n, and its own failures as exit 1 with a message."""
        if number is not None or exit_code is None:
            return Exit(exit_code, number)
        last = stderr.rstrip().rpartition("\n")[2]
        if exit_code == 1 and last.startswith("bwrap: "):
            return Exit(None, None, spawn_error=last)
        if 128 < exit_code <= 128 + 64:
            return Exit(None, exit_code - 128)
        return Exit(exit_code, None)

    def probe(self) -> list[str]:
        if resolve_program(self._program, os.defpath + ":/usr/local/bin") is None:
            return ["bwrap is not installed: install the package bubblewrap"]
        problem = run_probe(self, ("true",))
        return [problem] if problem else []

    def describe(self) -> list[str]:
        return [
            "enforced: all that host enforces, and: read-only root with programs only, writing "
            "in the attempt's folders only, private /tmp and /proc, own PID, IPC, UTS and user "
            "namespaces, no capabilities, no terminal, no network when worker.network is off",
            "not enforced: which hosts a session may reach while worker.network is on "
            "(services on this machine included); RLIMIT_NPROC (processes are watched instead)",
        ]

    def _walls(self, spec: SessionSpec, guest: Path) -> list[str]:
        args = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        args += ["--unshare-cgroup-try", "--disable-userns"]
        if not spec.network:
            args.append("--unshare-net")
        args += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        args += ["--hostname", "session", "--proc", "/proc", "--dev", "/dev"]
        # Both are memory: a size of their own, and nothing else in /dev to fill.
        args += ["--size", str(TMP_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
        args += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp"]  # noqa: S108 - inside the session
        for name in SYSTEM:
            path = Path(name)
            if path.is_symlink():
                args += ["--symlink", str(path.readlink()), name]
            elif path.exists():
                args += ["--ro-bind", name, name]
        for name in ETC:
            args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        # Outer folders first, so that a folder inside another one is not covered again.
        own = {guest, guest.resolve()} if not _below(guest.resolve(), SYSTEM) else {guest}
        wanted = {path: "--ro-bind" for path in own if not _below(path, SYSTEM)}
        wanted |= {path.absolute(): "--ro-bind" for path in (*self._readable, *spec.readable)}
        wanted |= {path.absolute(): "--bind" for path in spec.writable}
        for path in sorted(wanted, key=lambda path: len(path.parts)):
            if _below(path, SYSTEM) and wanted[path] == "--ro-bind":
                continue
            args += [wanted[path], str(path), str(path)]
        return [*args, "--remount-ro", "/", "--chdir", str(spec.cwd)]


def _below(path: Path, folders: Iterable[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
