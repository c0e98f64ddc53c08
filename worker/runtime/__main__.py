"""``python -m worker.runtime``: try the configured backend out and print what is wrong, as JSON."""

from __future__ import annotations

import json
import sys

from coven.errors import ConfigurationError
from coven.settings.loader import load
from worker.runtime.choose import choose


def main() -> int:
    """Print ``{"problems": […], "describe": […]}``. Exit code 0 whenever that was printed."""
    settings = load().settings
    if settings is None:
        print("the configuration can't be used", file=sys.stderr)  # noqa: T201 - the answer
        return 2
    try:
        backend = choose(settings)
        answer = {"problems": backend.probe(), "describe": backend.describe()}
    except ConfigurationError as error:
        answer = {"problems": str(error).splitlines(), "describe": []}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
