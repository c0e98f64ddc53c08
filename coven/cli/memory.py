"""``memory``: what familiars know, who let it, and how to take it back."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from coven import memory_shown
from coven.cli import exits, ledger
from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.output import complain, plain, show_json, show_pairs, show_table
from coven.clock import SystemClock
from coven.memory.book import (
    Decided,
    Entry,
    EntryState,
    Person,
    Refusal,
    Revocation,
    Revoked,
    Source,
    parse_id,
    shown,
)
from coven.settings.loader import load_settings
from coven.store import book, book_sharing
from coven.store.book import Filters
from coven.store.engine import Tx
from coven.values import InstallationId, RepoId, RepoName

app = typer.Typer(help="Look at memory and decide about it.", no_args_is_help=True)

EntryArgument = Annotated[str, typer.Argument(metavar="ID", help="Entry, as M-….")]
TargetArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="Entry id, key, or prefix such as repo/owner/name.")
]
InstallationOption = Annotated[int | None, typer.Option(help="Of this installation only.")]
RepoOption = Annotated[str | None, typer.Option(metavar="OWNER/NAME", help="Of this repository.")]
WhyOption = Annotated[str | None, typer.Option(help="Why, for the log.")]

_NEXT = {
    Refusal.UNKNOWN: "there is no such thing in memory; see `coven-github memory list`",
    Refusal.NOT_PENDING: "it does not wait for an answer; see `coven-github memory show {it}`",
    Refusal.NOT_APPROVED: "it is not in use; see `coven-github memory show {it}`",
    Refusal.NOT_SHARED: "nothing is shared from there; see `coven-github memory list`",
    Refusal.TEXT_CHANGED: "another text stands there now; see `coven-github memory show {it}`",
    Refusal.REVOKED_KEY: "the place is revoked; `coven-github memory lift` opens it again",
    Refusal.EXPIRED: "it is too old; the next run may propose it again",
    Refusal.BAD_KEY: "it is no key; write repo/<owner>/<name>/… or tenant/<installation id>/…",
    Refusal.OTHER_OWNER: "it belongs to another repository or installation; name that one",
    Refusal.AMBIGUOUS: "several installations know it; add --installation",
}


@app.command("list")
def list_(
    installation: InstallationOption = None,
    repo: RepoOption = None,
    state: Annotated[EntryState | None, typer.Option(help="In this state only.")] = None,
    text: Annotated[str | None, typer.Option(help="With this in text or key.")] = None,
    revoked: Annotated[
        bool, typer.Option("--revoked", help="List revoked places instead of entries.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 50,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List entries, newest first."""
    with opened_store(config) as store, store.read() as tx:
        places = list(_rooms(tx, installation, repo))
        if revoked:
            _show_revoked(
                [
                    (tenant, each)
                    for tenant, repo_id in places
                    for each in book.revocations(tenant, tx, repo_id=repo_id, limit=limit)
                ],
                as_json,
            )
            return
        found = [
            entry
            for tenant, repo_id in places
            for entry in book.listed(
                tenant,
                tx,
                Filters(repo_id=repo_id, states=(state,) if state else (), text=text),
                limit=limit,
            )
        ]
    found = sorted(found, key=lambda entry: entry.seq, reverse=True)[:limit]
    if as_json:
        show_json([book.exported(entry) for entry in found])
        return
    show_table(
        ["ID", "STATE", "KEY", "TEXT", "BY", "SUPPLIED", "CITED", "CREATED"],
        [
            (
                entry.id,
                entry.state,
                entry.key,
                _short(entry),
                entry.decided_by_login or entry.actor_login,
                entry.supplied,
                entry.cited,
                entry.created_at,
            )
            for entry in found
        ],
        "No entries.",
    )


@app.command()
def show(entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show an entry: its whole text, where it comes from, what was decided, which runs used it."""
    with opened_store(config) as store, store.read() as tx:
        entry = _one(tx, entry_id)
        tenant = entry.installation_id
        log = book.history(tenant, tx, entry)
        runs = book.tasks_of(tenant, tx, entry.id)
    if as_json:
        show_json(
            {
                "entry": book.exported(entry),
                "decisions": [asdict(line) for line in log],
                "runs": [asdict(line) for line in runs],
            }
        )
        return
    _show_entry(entry)
    print()
    show_table(
        ["AT", "WHAT", "ENTRY", "BY", "TASK", "DETAIL"],
        [
            (
                line.at,
                line.act,
                line.entry_id,
                line.by_login,
                line.task_id and line.task_id[:12],
                line.detail,
            )
            for line in log
        ],
        "Nothing was decided.",
    )
    print()
    show_table(
        ["AT", "TASK", "WHAT", "OUTCOME"],
        [(line.at, line.task_id[:12], line.op, line.outcome) for line in runs],
        "No run was handed this.",
    )


@app.command()
def approve(
    entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Approve a proposal: later runs are handed it."""
    _decide(entry_id, True, config, as_json)


@app.command()
def reject(
    entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Reject a proposal: the same text is not asked for again."""
    _decide(entry_id, False, config, as_json)


app.command("deny", help="The same as reject.")(reject)


@app.command()
def share(
    entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Give an approved text to runs in all repositories of its installation, public ones too."""
    settings, now = load_settings(config), SystemClock().now()
    days = settings.memory.retention_days
    with opened_store(config) as store, store.write("cli.memory") as tx:
        entry = _one(tx, entry_id)
        done = book_sharing.share(
            entry.installation_id,
            tx,
            entry.id,
            _operator(),
            entry.text_hash,
            Source.COMMAND,
            now,
            keep=timedelta(days=days) if days is not None else None,
        )
    _answer(entry_id, done, "is what all repositories share", as_json)


@app.command()
def unshare(
    entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Revoke a shared text, by its id or by the id of the entry that was shared."""
    now = SystemClock().now()
    with opened_store(config) as store, store.write("cli.memory") as tx:
        tenant = _one(tx, entry_id).installation_id
        done = book_sharing.unshare(tenant, tx, _one(tx, entry_id).id, _operator(), now)
        _ended(tx, tenant, done, config, now)
    _tell(entry_id, done, "is shared no longer", as_json)


@app.command()
def revoke(
    target: TargetArgument,
    installation: InstallationOption = None,
    why: WhyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close a place and all below it, for the next run and those that run now."""
    with opened_store(config) as store, store.write("cli.memory") as tx:
        done = _of(
            [
                _revoked(tx, tenant, target, why, config)
                for tenant in _tenants_of(tx, installation, target)
            ]
        )
    _tell(target, done, "is revoked" if done.fresh else "was revoked before", as_json)


@app.command()
def lift(
    target: TargetArgument,
    installation: InstallationOption = None,
    why: WhyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a place that was revoked as exactly this. Its entries stay revoked."""
    with opened_store(config) as store, store.write("cli.memory") as tx:
        done = _of(
            [
                book.lift(tenant, tx, target, _operator(), SystemClock().now(), why=why)
                for tenant in _tenants_of(tx, installation, target)
            ]
        )
    _tell(target, done, "is open again", as_json)


@app.command()
def export(
    installation: Annotated[int, typer.Option(help="Of this installation.")],
    repo: RepoOption = None,
    state: Annotated[EntryState | None, typer.Option(help="In this state only.")] = None,
    config: ConfigOption = None,
) -> None:
    """Print entries as JSON lines, each with where it comes from and what was decided."""
    with opened_store(config) as store, store.read() as tx:
        for tenant, repo_id in _rooms(tx, installation, repo):
            filters = Filters(repo_id=repo_id, states=(state,) if state else ())
            for row in book.export(tenant, tx, filters):
                json.dump(row, sys.stdout, sort_keys=True, default=str)
                sys.stdout.write("\n")


@app.command()
def redact(
    entry_id: EntryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Take the text of an entry out for ever; its hash and its history stay."""
    with opened_store(config) as store, store.write("cli.memory") as tx:
        entry = _one(tx, entry_id)
        now = SystemClock().now()
        done = book.redact(entry.installation_id, tx, entry.id, _operator(), now)
        if done.entry is not None:
            # Also where it was cited: the text must go from there too.
            memory_shown.refresh(load_settings(config), tx, [done.entry], now, everywhere=True)
    _answer(entry_id, done, "has no text any more", as_json)


def _revoked(
    tx: Tx, tenant: InstallationId, target: str, why: str | None, config: Path | None
) -> Revoked:
    now = SystemClock().now()
    done = book.revoke(tenant, tx, target, _operator(), now, why=why)
    _ended(tx, tenant, done, config, now)
    return done


def _ended(
    tx: Tx, tenant: InstallationId, done: Revoked, config: Path | None, now: datetime
) -> None:
    ended = [entry for each in done.entries if (entry := book.entry(tenant, tx, each)) is not None]
    memory_shown.refresh(load_settings(config), tx, ended, now)


def _decide(entry_id: str, approve: bool, config: Path | None, as_json: bool) -> None:
    settings, now = load_settings(config), SystemClock().now()
    days = settings.memory.retention_days
    with opened_store(config) as store, store.write("cli.memory") as tx:
        entry = _one(tx, entry_id)
        done = book.decide(
            entry.installation_id,
            tx,
            entry.id,
            approve,
            _operator(),
            entry.text_hash,
            now,
            keep=timedelta(days=days) if days is not None else None,
        )
        if done.entry is not None:
            memory_shown.refresh(settings, tx, [done.entry], now)
    _answer(entry_id, done, "is approved" if approve else "is rejected", as_json)


def _answer(entry_id: str, done: Decided, said: str, as_json: bool) -> None:
    if done.refused is not None:
        _refuse(entry_id, done.refused)
    assert done.entry is not None
    if as_json:
        show_json(book.exported(done.entry))
    else:
        print(f"{done.entry.id} {said}: {plain(shown(done.entry.summary))}")


def _tell(target: str, done: Revoked, said: str, as_json: bool) -> None:
    if done.refused is not None:
        _refuse(target, done.refused)
    if as_json:
        show_json({"target": done.target, "entries": list(done.entries), "changed": done.fresh})
        return
    ended = f" Taken out of use: {', '.join(done.entries)}." if done.entries else ""
    print(f"{plain(done.target)} {said}.{ended}")


def _refuse(it: str, refused: Refusal) -> NoReturn:
    step = _NEXT.get(refused, refused.value).format(it=it)
    complain(f"{it[:80]}: {step}")
    missing = refused in (Refusal.UNKNOWN, Refusal.AMBIGUOUS)
    raise typer.Exit(exits.NOT_FOUND if missing else exits.FAILED)


def _of(answers: list[Revoked]) -> Revoked:
    return answers[0] if answers else Revoked(None, refused=Refusal.UNKNOWN)


def _operator() -> Person:
    return Person.operator(getpass.getuser())


def _one(tx: Tx, entry_id: str) -> Entry:
    found = parse_id(entry_id)
    tenant = ledger.tenant_of_memory(tx, found) if found is not None else None
    entry = book.entry(tenant, tx, found) if tenant is not None and found is not None else None
    if entry is None:
        _refuse(entry_id, Refusal.UNKNOWN)
    return entry


def _tenants_of(tx: Tx, installation: int | None, target: str) -> list[InstallationId]:
    """The one installation that a target belongs to; exits when there are several."""
    if installation is not None:
        return [InstallationId(installation)]
    entry_id = parse_id(target)
    if entry_id is not None:
        tenant = ledger.tenant_of_memory(tx, entry_id)
        return [tenant] if tenant is not None else []
    known = [
        tenant
        for tenant in ledger.tenants(tx)
        if not isinstance(book.resolve(tenant, tx, target, None), Refusal)
    ]
    if len(known) > 1:
        _refuse(target, Refusal.AMBIGUOUS)
    return known or ledger.tenants(tx)[:1]


def _rooms(
    tx: Tx, installation: int | None, repo: str | None
) -> Iterator[tuple[InstallationId, RepoId | None]]:
    """The installations, each with the repository that is meant there."""
    tenants = [InstallationId(installation)] if installation is not None else ledger.tenants(tx)
    if repo is None:
        yield from ((tenant, None) for tenant in tenants)
        return
    try:
        name = RepoName.parse(repo)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--repo") from None
    rooms = [(tenant, book.repo_named(tenant, tx, name)) for tenant in tenants]
    known = [(tenant, repo_id) for tenant, repo_id in rooms if repo_id is not None]
    if not known:
        complain(f"no installation has shown us {repo[:80]}; see `coven-github tasks list`")
        raise typer.Exit(exits.NOT_FOUND)
    yield from known


def _short(entry: Entry) -> str:
    text = " ".join(shown(entry.summary).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _show_entry(entry: Entry) -> None:
    show_pairs(
        [
            ("entry", entry.id),
            ("state", entry.state),
            ("key", entry.key),
            ("version", entry.version),
            ("replaced by", entry.replaced_by),
            ("installation", entry.installation_id),
            ("source", entry.source),
            ("trust", entry.trust),
            ("task", entry.task_id),
            ("commit", entry.head_sha),
            ("familiar", entry.familiar_id),
            ("asked by", entry.actor_login),
            ("author", entry.author_login),
            ("decided by", entry.decided_by_login),
            ("decided", entry.decided_at),
            ("created", entry.created_at),
            ("expires", entry.expires_at),
            ("supplied to", entry.supplied),
            ("cited by", entry.cited),
            ("text hash", entry.text_hash),
        ]
    )
    print()
    for line in shown(entry.summary).splitlines():
        print(f"  {plain(line)}")


def _show_revoked(found: list[tuple[InstallationId, Revocation]], as_json: bool) -> None:
    if as_json:
        show_json(
            [
                asdict(each) | {"repo": each.repo and str(each.repo), "installation_id": tenant}
                for tenant, each in found
            ]
        )
        return
    show_table(
        ["PLACE", "INSTALLATION", "BY", "AT"],
        [(each.target, tenant, each.by_login, each.at) for tenant, each in found],
        "Nothing is revoked.",
    )
