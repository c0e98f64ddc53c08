"""``python -m coven.sandbox``: the sandbox as its own process."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from coven.sandbox.server import APP_ID, SLUG, SandboxGitHub


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM, SIGINT or, with ``--exit-with-stdin``, the end of standard input."""
    parser = argparse.ArgumentParser(prog="python -m coven.sandbox", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--state", type=Path, required=True, help="folder for repositories and key")
    parser.add_argument("--port-file", type=Path, help="file that will hold the port")
    parser.add_argument("--app-id", type=int, default=APP_ID)
    parser.add_argument("--slug", default=SLUG, help="the App's slug; its bot is <slug>[bot]")
    parser.add_argument("--public-key", type=Path, help="PEM file; a pair is generated without it")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end with the parent")
    args = parser.parse_args(argv)
    public_key = None
    if args.public_key is not None:
        try:
            public_key = args.public_key.read_bytes()
        except OSError as error:
            parser.error(f"--public-key: {error.strerror}")
    try:
        sandbox = SandboxGitHub(
            args.state,
            port=args.port,
            app_id=args.app_id,
            slug=args.slug,
            public_key=public_key,
        )
    except (OSError, SystemExit) as error:
        parser.error(f"cannot start on port {args.port}: {error}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if args.exit_with_stdin:
        threading.Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
    sandbox.start()
    sandbox.announce(args.port_file)
    stop.wait()
    sandbox.close()
    return 0


def _wait_for_end(stop: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
