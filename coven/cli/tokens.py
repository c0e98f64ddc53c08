"""``tokens``: who may use the HTTP API."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from coven import api_tokens as values
from coven.api_tokens import TokenScope
from coven.cli import exits
from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.output import complain, show_json, show_table
from coven.clock import SystemClock
from coven.store import api_audit, api_tokens
from coven.store.api_tokens import Token
from coven.store.engine import Tx
from coven.values import InstallationId

app = typer.Typer(help="Make, list, rotate and revoke API tokens.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as listed.")]
_CALLER = "operator"


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What it is for.")],
    installation: Annotated[
        int | None, typer.Option(min=1, help="Sees this installation only.")
    ] = None,
    service: Annotated[bool, typer.Option("--service", help="Sees all installations.")] = False,
    scope: Annotated[
        TokenScope, typer.Option(help="read < memory:write < admin; each includes those before.")
    ] = TokenScope.READ,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="Expires after so many.")] = 90,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, once."""
    if service == (installation is not None):
        complain("say whose data the token sees: --installation ID, or --service for all")
        raise typer.Exit(exits.UNUSABLE)
    now = SystemClock().now()
    minted = values.mint()
    token = Token(
        id=minted.id,
        name=name[:80],
        digest=values.digest_of(minted.secret),
        installation_id=InstallationId(installation) if installation is not None else None,
        scope=scope,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    with opened_store(config) as store, store.write("cli.tokens") as tx:
        api_tokens.add(tx, token)
        _note(tx, token, "create_token", now)
    _show(token, minted.secret, as_json)


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List tokens, newest first; never their secrets."""
    with opened_store(config) as store, store.read() as tx:
        found = api_tokens.listed(tx)
    if as_json:
        show_json([_facts(token) for token in found])
        return
    now = SystemClock().now()
    show_table(
        ["ID", "NAME", "SEES", "SCOPE", "STATE", "CREATED", "EXPIRES", "LAST USED"],
        [
            (
                token.id,
                token.name,
                token.installation_id or "all",
                token.scope,
                "good" if token.is_good(now) else "revoked" if token.revoked_at else "expired",
                token.created_at,
                token.expires_at,
                token.last_used_at,
            )
            for token in found
        ],
        "No tokens. `coven-github tokens create` makes one.",
    )


@app.command()
def revoke(token_id: IdArgument, config: ConfigOption = None) -> None:
    """Make a token worthless, at once and for good."""
    now = SystemClock().now()
    with opened_store(config) as store, store.write("cli.tokens") as tx:
        token = _known(tx, token_id)
        fresh = api_tokens.revoke(tx, token.id, now)
        if fresh:
            _note(tx, token, "revoke_token", now)
    print(f"Token {token.id} is revoked." if fresh else f"Token {token.id} was revoked before.")


@app.command()
def rotate(
    token_id: IdArgument,
    grace_hours: Annotated[
        int, typer.Option(min=0, max=720, help="How long the old one works on.")
    ] = 24,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="The new one expires after.")] = 90,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the successor of a token and print it, once; the old one ends after the grace."""
    now = SystemClock().now()
    minted = values.mint()
    with opened_store(config) as store, store.write("cli.tokens") as tx:
        old = _known(tx, token_id)
        if not old.is_good(now):
            complain(f"token {old.id} is revoked or expired; make another with `tokens create`")
            raise typer.Exit(exits.FAILED)
        token = Token(
            id=minted.id,
            name=old.name,
            digest=values.digest_of(minted.secret),
            installation_id=old.installation_id,
            scope=old.scope,
            created_at=now,
            expires_at=now + timedelta(days=days),
            replaces=old.id,
        )
        api_tokens.add(tx, token)
        api_tokens.end_by(tx, old.id, now + timedelta(hours=grace_hours))
        _note(tx, token, "rotate_token", now)
    _show(token, minted.secret, as_json)


def _known(tx: Tx, token_id: str) -> Token:
    found = api_tokens.find(tx, token_id)
    if found is None:
        complain(f"there is no token {token_id[:20]}; see `coven-github tokens list`")
        raise typer.Exit(exits.NOT_FOUND)
    return found


def _note(tx: Tx, token: Token, action: str, now: datetime) -> None:
    api_audit.record(
        token.installation_id,
        tx,
        at=now,
        caller=_CALLER,
        action=action,
        result="ok",
        target=f"token:{token.id}",
    )


def _show(token: Token, secret: str, as_json: bool) -> None:
    if as_json:
        show_json(_facts(token) | {"token": secret})
        return
    ends = token.expires_at.astimezone(UTC).strftime("%Y-%m-%d") if token.expires_at else "never"
    print(secret)
    print(f"Shown this once. Id {token.id}, scope {token.scope}, expires {ends}.")


def _facts(token: Token) -> dict[str, object]:
    return {key: value for key, value in asdict(token).items() if key != "digest"}
