"""The ``coven-github`` command."""

from __future__ import annotations

import os
import platform
import sys
from typing import Annotated

import typer

from coven import __version__
from coven.cli import (
    database,
    deliveries,
    exits,
    governance,
    identity,
    memory,
    purges,
    rules,
    running,
    tasks,
    tokens,
)
from coven.cli.context import JsonOption
from coven.cli.doctor import doctor
from coven.cli.output import complain, show_json
from coven.cli.setup import setup
from coven.errors import ConfigurationError, CovenError, Retry

_EPILOG = (
    "Exit codes: 0 done, 1 the answer is bad, 2 wrong usage or configuration, 3 not found, "
    "4 not reachable now, 130 interrupted."
)


def build() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="coven-github",
        help="A GitHub App that lets a team work with a familiar run by coven-code.",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for command in (running.up, running.web, running.worker, running.control, running.beat):
        app.command()(command)
    app.command()(setup)
    app.command()(doctor)
    app.command()(demo)
    app.add_typer(tasks.app, name="tasks")
    app.add_typer(deliveries.app, name="deliveries")
    app.add_typer(memory.app, name="memory")
    app.add_typer(purges.app, name="purges")
    app.add_typer(tokens.app, name="tokens")
    app.add_typer(rules.app, name="rules")
    app.add_typer(governance.app, name="governance")
    app.add_typer(identity.app, name="identity")
    app.add_typer(database.app, name="db")
    app.command()(version)
    return app


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running and print the addresses.")
    ] = False,
) -> None:
    """Show a whole review on this machine, with a GitHub of its own; needs nothing else."""
    from coven.sandbox.demo import run  # the sandbox is needed here only

    raise typer.Exit(run(keep=keep))


def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    facts = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    if as_json:
        show_json(facts)
    else:
        print("coven-github {version} (Python {python}, {platform})".format(**facts))


def main() -> None:
    """Console entry: errors become one line each and an exit code, never a traceback."""
    try:
        build()()
    except ConfigurationError as error:
        complain(str(error))
        sys.exit(exits.UNUSABLE)
    except CovenError as error:
        complain(str(error))
        sys.exit(exits.UNAVAILABLE if error.retry is Retry.BACKOFF else exits.FAILED)
    except KeyboardInterrupt:
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        # The reader left (`| head`); keep the interpreter from complaining once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(exits.DONE)
