"""``python -m coven.sandbox.runtime``: the same program as the installed ``coven-code``."""

from __future__ import annotations

import sys

from coven.sandbox.runtime.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
