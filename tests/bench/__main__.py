"""``python -m tests.bench``: what the adapter costs, as ratios within one run.

Absolute times depend on the machine and its load; ratios between measurements of the same run do
not, much. Exit codes: 0 all was measured (a missed target is printed, not failed), 1 something
could not be measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    api_calls,
    checkout,
    claims,
    dashboard,
    governance,
    overhead,
    record,
    redaction,
)

PARTS: dict[str, Callable[[Path], None]] = {
    "calls": api_calls.measure,
    "checkout": checkout.measure,
    "claims": claims.measure,
    "dashboard": dashboard.measure,
    "governance": governance.measure,
    "overhead": overhead.measure,
    "record": record.measure,
    "redaction": redaction.measure,
}


def main(argv: list[str]) -> int:
    """Measure the chosen parts, all by default."""
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="|".join(PARTS))
    failed = False
    for name in parser.parse_args(argv).parts or PARTS:
        with tempfile.TemporaryDirectory(prefix=f"coven-bench-{name}-") as folder:
            try:
                PARTS[name](Path(folder))
            except Exception:
                traceback.print_exc()
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
