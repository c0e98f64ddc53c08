"""``doctor``: everything that is wrong, at once."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from coven.cli.context import ConfigOption, JsonOption
from coven.cli.output import show_json, show_table
from coven.cli.probe import backend_report
from coven.clock import SystemClock
from coven.doctor_online import Online, check_online
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.settings.catalogue import CHECKS, check_of
from coven.settings.doctor import Diagnosis, diagnose
from coven.settings.findings import Finding
from coven.settings.loader import load
from coven.settings.machine import Machine
from coven.settings.models import Settings


def doctor(
    config: ConfigOption = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask GitHub, the broker and the database.")
    ] = False,
    checks: Annotated[bool, typer.Option("--checks", help="Only list what is checked.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration and this machine; nothing is changed, no secret is shown.

    Exit codes: 0 no errors (warnings allowed), 1 errors, 2 the file can't be read or parsed.
    """
    if checks:
        if as_json:
            show_json(CHECKS)
        else:
            show_table(["CHECK", "WHAT"], CHECKS.items(), "")
        return
    loaded = load(config)
    diagnosis = diagnose(loaded, Machine(backend_report=backend_report(config)))
    if online and loaded.settings is not None:
        diagnosis = diagnosis.with_more(_asked(loaded.settings))
    if as_json:
        show_json(
            {
                "config": diagnosis.source,
                "errors": diagnosis.errors,
                "warnings": diagnosis.warnings,
                "findings": [
                    {**asdict(finding), "check": check_of(finding.key)}
                    for finding in diagnosis.findings
                ],
            }
        )
    else:
        _show(diagnosis)
    raise typer.Exit(diagnosis.exit_code)


def _asked(settings: Settings) -> list[Finding]:
    clock, seam = SystemClock(), Seam()

    def tell(step: str) -> None:
        print(f"asking: {step}", file=sys.stderr, flush=True)

    return check_online(Online(settings, GitHub(settings, clock, seam), clock, seam, tell))


def _show(diagnosis: Diagnosis) -> None:
    if not diagnosis.unreadable:
        print(f"Configuration: {diagnosis.source or 'defaults and environment'}\n")
    rows = [(f.level, f.key, f.problem, f.next_step) for f in diagnosis.findings]
    show_table(["", "KEY", "WHAT", "NEXT STEP"], rows, "Nothing to say.")
    print(f"\n{_count(diagnosis.errors, 'error')}, {_count(diagnosis.warnings, 'warning')}.")
    if diagnosis.errors == 0:
        print("Start it with: coven-github up")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
