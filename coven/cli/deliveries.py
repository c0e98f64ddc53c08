"""``deliveries``: what GitHub told us, and what was decided."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from coven.cli import ledger
from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.output import show_json, show_table

app = typer.Typer(help="Look at webhook deliveries.", no_args_is_help=True)


@app.command("list")
def list_(
    installation: Annotated[int | None, typer.Option(help="Of this installation only.")] = None,
    routing: Annotated[
        str | None, typer.Option(help="Whose routing begins so: task, ignored, rejected:…")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, newest first."""
    with opened_store(config) as store, store.read() as tx:
        found = ledger.list_deliveries(tx, installation, routing, limit)
    if as_json:
        show_json([asdict(delivery) for delivery in found])
        return
    show_table(
        ["RECEIVED", "DELIVERY", "EVENT", "REPOSITORY", "SENDER", "SEEN", "ROUTING"],
        [
            (
                d.received_at,
                d.id,
                f"{d.event}.{d.action}" if d.action else d.event,
                d.repo_name,
                d.sender_login,
                d.seen,
                d.routing,
            )
            for d in found
        ],
        "No deliveries.",
    )
