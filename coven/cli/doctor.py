"""``doctor``: everything that is wrong, at once."""

from __future__ import annotations

from dataclasses import asdict

import typer

from coven.cli.context import ConfigOption, JsonOption
from coven.cli.output import show_json, show_table
from coven.cli.probe import backend_report
from coven.settings.doctor import Diagnosis, diagnose
from coven.settings.loader import load
from coven.settings.machine import Machine


def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the configuration and this machine; nothing is changed, no secret is shown.

    Exit codes: 0 no errors (warnings allowed), 1 errors, 2 the file can't be read or parsed.
    """
    loaded = load(config)
    diagnosis = diagnose(loaded, Machine(backend_report=backend_report(config)))
    if as_json:
        show_json(
            {
                "config": diagnosis.source,
                "errors": diagnosis.errors,
                "warnings": diagnosis.warnings,
                "findings": [asdict(finding) for finding in diagnosis.findings],
            }
        )
    else:
        _show(diagnosis)
    raise typer.Exit(diagnosis.exit_code)


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
