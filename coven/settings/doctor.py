"""The doctor: everything that is wrong with a configuration and its machine, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coven.settings.checks import check_settings
from coven.settings.findings import Finding, Level, from_problems
from coven.settings.loader import Loaded
from coven.settings.machine import Machine, check_machine

__all__ = ["Diagnosis", "Finding", "Level", "diagnose"]

EXIT_HEALTHY = 0
"""No errors; warnings are allowed."""
EXIT_ERRORS = 1
EXIT_UNREADABLE = 2
"""The file can't be read or parsed, so nothing could be checked."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, errors first."""

    findings: tuple[Finding, ...]
    source: Path | None
    unreadable: bool = False

    @property
    def errors(self) -> int:
        return sum(f.level is Level.ERROR for f in self.findings)

    @property
    def warnings(self) -> int:
        return sum(f.level is Level.WARNING for f in self.findings)

    @property
    def exit_code(self) -> int:
        """0 without errors, 1 with errors, 2 when there was nothing to check."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return EXIT_ERRORS if self.errors else EXIT_HEALTHY

    def with_more(self, findings: Sequence[Finding]) -> Diagnosis:
        """This one with what was found out later."""
        return replace(self, findings=tuple(_sorted([*self.findings, *findings])))


def diagnose(loaded: Loaded, machine: Machine | None) -> Diagnosis:
    """Check what was loaded; ``machine`` None leaves out the checks of this machine.

    A key that the loader refused is reported once: what the checks say about the default that
    stands in for it would only confuse.
    """
    findings = from_problems(loaded.problems)
    refused = {_bare(problem.key) for problem in loaded.problems}
    if loaded.settings is not None:
        further = check_settings(loaded.settings)
        if machine is not None:
            further += check_machine(loaded.settings, machine)
        findings += [f for f in further if _bare(f.key) not in refused]
    return Diagnosis(tuple(_sorted(findings)), loaded.source, loaded.unreadable)


def _sorted(findings: Sequence[Finding]) -> list[Finding]:
    order = [Level.ERROR, Level.WARNING, Level.OK]
    return sorted(findings, key=lambda finding: order.index(finding.level))


def _bare(key: str) -> str:
    # An index, a variable's name and the *_file form all mean the same key.
    name = key.removeprefix("COVEN_GITHUB__").replace("__", ".").lower()
    return name.split("[")[0].removesuffix("_file")
