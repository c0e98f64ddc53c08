"""``purges``: what was removed of tenants that are gone, and what is still to be."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.output import show_json, show_table
from coven.store import sweeps

app = typer.Typer(help="Look at what is removed of tenants that are gone.", no_args_is_help=True)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List purges, newest first, each with the rows removed by finished step."""
    with opened_store(config) as store, store.read() as tx:
        found = sweeps.recent_purges(tx, limit)
    if as_json:
        show_json([asdict(purge) for purge in found])
        return
    show_table(
        ["REQUESTED", "INSTALLATION", "REPOSITORY", "WHY", "STATE", "REMOVED", "TRIES", "ERROR"],
        [
            (
                purge.requested_at,
                purge.installation_id,
                purge.repo_id or "all",
                purge.reason,
                purge.state,
                ", ".join(f"{step} {count}" for step, count in purge.steps.items()),
                purge.tries,
                purge.error,
            )
            for purge in found
        ],
        "No purges.",
    )
