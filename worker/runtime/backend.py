"""The interface between supervision and the ways to confine a session."""

from __future__ import annotations

from collections.abc import Mapping
from shutil import which
from typing import NamedTuple, Protocol

from worker.runtime.session import SessionSpec

SESSION = "COVEN_SESSION"
SUPERVISOR = "COVEN_SUPERVISOR"


class Prepared(NamedTuple):
    """What the launcher starts for a session."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class Exit(NamedTuple):
    """How the guest ended, as far as the backend can tell."""

    exit_code: int | None
    signal: int | None
    spawn_error: str | None = None


class Backend(Protocol):
    """A way to confine a session."""

    @property
    def name(self) -> str:
        """``host``, ``bubblewrap`` or ``container``."""

    @property
    def spare(self) -> tuple[str, ...]:
        """Program names that must not get SIGTERM, since they would take the guest along."""

    @property
    def sets_no_new_privs(self) -> bool:
        """Whether the backend drops privileges itself, so that the launcher must not."""

    @property
    def own_limits(self) -> bool:
        """Whether memory and processes are limited out of the launcher's sight."""

    def prepare(self, spec: SessionSpec) -> Prepared:
        """The command that runs ``spec`` confined, and the environment of that command.

        Raises ``ConfigurationError`` when this can't be done on this machine.
        """

    def read_exit(self, exit_code: int | None, number: int | None, stderr: str) -> Exit:
        """Translate how the command ended into how the guest ended."""

    @property
    def cli_env(self) -> Mapping[str, str]:
        """The environment for the commands below."""

    def kill(self, spec: SessionSpec) -> tuple[str, ...] | None:
        """A command that kills what the process tree does not show, if there is any."""

    def inspect(self, spec: SessionSpec) -> tuple[str, ...] | None:
        """A command that prints ``true`` when the guest was killed for memory, if there is any."""

    def finish(self, spec: SessionSpec) -> tuple[str, ...] | None:
        """A command that removes what the session left in the backend, if there is any."""

    def probe(self) -> list[str]:
        """Problems that keep this backend from working, one sentence each with the fix."""

    def describe(self) -> list[str]:
        """What is enforced and what is not, one line each."""


class Plain:
    """For backends whose processes are all in the launcher's sight: no further commands."""

    own_limits = False

    @property
    def cli_env(self) -> Mapping[str, str]:
        return {}

    def kill(self, spec: SessionSpec) -> tuple[str, ...] | None:
        return None

    def inspect(self, spec: SessionSpec) -> tuple[str, ...] | None:
        return None

    def finish(self, spec: SessionSpec) -> tuple[str, ...] | None:
        return None


def resolve_program(name: str, path: str) -> str | None:
    """The absolute path of an executable, looked up on ``path`` like execvp does."""
    return which(name, path=path)
