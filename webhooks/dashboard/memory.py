"""The memory book: what is known, what waits for a decision, and which runs it shaped.

Decisions are the API's own handlers, so a page can do nothing that the API would not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response

from coven import memory_shown
from coven.api_tokens import TokenScope
from coven.memory.book import Entry, EntryState, Person, Refusal
from coven.store import book, dashboard, installations
from coven.store.engine import Tx
from coven.values import InstallationId, RepoName, TaskId
from coven.visible import with_visible
from webhooks.api import memory as api
from webhooks.api import memory_shapes as shapes
from webhooks.api.problems import Problem
from webhooks.dashboard import choosing
from webhooks.dashboard.asking import Ask, Done, Page, Sent, Shown, not_here
from webhooks.dashboard.rendering import url
from webhooks.dashboard.words import outcome

WAITING = 20
"""Proposals that are shown whole, ready to be decided."""
RUNS = 100
LINES = 200


def show_book(ask: Ask, tx: Tx) -> Shown:
    """Proposals that wait, and the book with its filters."""
    if ask.installation is None:
        return choosing.choose(tx, "memory", "Memory", dashboard.pending_memory(None, tx))
    query = _narrowed(ask, ask.read(shapes.MemoryQuery))
    found = api.list_memory(ask.call(tx, query))
    assert isinstance(found.answer, shapes.MemoryAnswer)
    waiting: list[Any] = []
    if "cursor" not in ask.query and query.state is None:
        pending = query.model_copy(
            update={"state": EntryState.PENDING, "limit": WAITING, "cursor": None}
        )
        answer = api.list_memory(ask.call(tx, pending)).answer
        assert isinstance(answer, shapes.MemoryAnswer)
        waiting = answer.memory
    return Shown(
        "memory.html",
        {
            "title": "Memory",
            "section": "memory",
            "entries": found.answer.memory,
            "waiting": waiting,
            "query": query,
            "states": list(EntryState),
            "repos": _repos(ask, tx),
            "cursor": ask.next_page(query, found),
        },
        rows=found.rows,
    )


def show_entry(ask: Ask, tx: Tx) -> Shown:
    """One entry: text, origin, decisions, other versions, and the runs it shaped."""
    tenant, found = _entry(ask, tx)
    runs = book.tasks_of(tenant, tx, found.id, limit=RUNS)
    return Shown(
        "memory_entry.html",
        {
            "title": f"Memory {found.id}",
            "section": "memory",
            "entry": shapes.memory_item(found),
            "place": found,
            "hidden": with_visible(found.summary)[1],
            "history": [shapes.decision_item(each) for each in book.history(tenant, tx, found)],
            "versions": book.versions(tenant, tx, found),
            "runs": [(run, outcome(run.outcome)) for run in runs],
            "named": dashboard.named(tenant, tx, [run.task_id for run in runs]),
        },
        rows=1,
        target=found.id,
    )


def approve(ask: Ask, tx: Tx) -> Done:
    """Approve the text that was shown."""
    return _decide(ask, tx, api.approve_memory, "is approved: the next runs are given it.")


def deny(ask: Ask, tx: Tx) -> Done:
    """Turn a proposal down."""
    return _decide(ask, tx, api.deny_memory, "is turned down.")


def redact(ask: Ask, tx: Tx) -> Done:
    """Take the text out for ever; hash and history stay."""
    tenant, found = _entry(ask, tx)
    done = book.redact(tenant, tx, found.id, _person(ask), ask.now)
    if done.entry is not None:
        # Also where it was cited: the text must go from there too.
        memory_shown.refresh(ask.services.settings, tx, [done.entry], ask.now, everywhere=True)
    return Done(_page(tenant, found.id), f"{found.id} has no text any more.", found.id)


def revoke_entry(ask: Ask, tx: Tx) -> Done:
    """Close the place of an entry."""
    tenant, found = _entry(ask, tx)
    body = ask.body(shapes.RevokeBody, key=found.id, repo=str(found.repo) if found.repo else None)
    done = api.revoke_memory(ask.call(tx, body=body))
    return Done(_page(tenant, found.id), f"{found.key} is revoked and stays closed.", done.target)


def show_revocations(ask: Ask, tx: Tx) -> Shown:
    """Places that are closed, and the way to close or open one."""
    tenant = ask.installation
    if tenant is None:
        return choosing.choose(tx, "memory", "Memory", {})
    repo = _narrow_repo(ask, ask.query.get("repo"))
    reach = _reach(ask, tx, tenant, repo)
    standing = ask.query.get("all") != "1"
    found = book.revocations(tenant, tx, repo_id=reach, standing=standing, limit=200)
    if ask.caller.repos:
        found = [each for each in found if each.repo is not None and ask.caller.sees(each.repo)]
    return Shown(
        "memory_revocations.html",
        {
            "title": "Revoked places",
            "section": "memory",
            "found": found,
            "standing": standing,
            "repo": repo,
            "repos": _repos(ask, tx),
        },
        rows=len(found),
    )


def revoke(ask: Ask, tx: Tx) -> Done:
    """Close a key, or everything below a prefix."""
    given = {
        ask.form.get("as", "key"): ask.form.get("target", "").strip(),
        "repo": _narrow_repo(ask, ask.form.get("repo") or None),
    }
    if not set(given) <= {"key", "prefix", "repo"}:
        raise Problem(400, "bad_value", "Say whether you mean one key or everything below it.")
    done = api.revoke_memory(ask.call(tx, body=ask.body(shapes.RevokeBody, **given)))
    assert isinstance(done.answer, shapes.RevokeAnswer)
    ended = len(done.answer.entries)
    text = f"{done.target} is revoked; {ended} entries were taken out of use."
    return Done(_revocations(ask), text, done.target, rows=ended)


def lift(ask: Ask, tx: Tx) -> Done:
    """Open a place again. Its entries stay revoked."""
    tenant = ask.installation
    if tenant is None:
        raise not_here()
    target = ask.form.get("target", "")[:300]
    reach = _reach(ask, tx, tenant, _narrow_repo(ask, ask.form.get("repo") or None))
    done = book.lift(tenant, tx, target, _person(ask), ask.now, repo_id=reach)
    if done.refused is Refusal.UNKNOWN:
        raise not_here()
    if done.refused is not None:
        raise Problem(409, done.refused.value, "This can't be opened so; look at the list again.")
    return Done(_revocations(ask), f"{done.target} is open again.", done.target)


def export(ask: Ask, tx: Tx) -> Sent:
    """All entries as JSON lines, with origin and decisions."""
    query = ask.read(shapes.ExportQuery)
    query = query.model_copy(update={"repo": _narrow_repo(ask, query.repo)})
    found = api.export_memory(ask.call(tx, query))
    response = Response(found.lines, mimetype="application/x-ndjson")
    response.headers.extend(found.headers)
    return Sent(response, found.target)


def _decide(ask: Ask, tx: Tx, handler: Callable[..., Any], said: str) -> Done:
    tenant, found = _entry(ask, tx)
    body = ask.body(shapes.DecideBody, text_hash=ask.form.get("text_hash", ""))
    handler(ask.call(tx, body=body, entry_id=found.id))
    where = _page(tenant, found.id)
    if ask.form.get("back") == "list":
        where = url("memory", installation_id=tenant, repo=ask.form.get("repo"))
    return Done(where, f"{found.id} {said}", found.id)


def _entry(ask: Ask, tx: Tx) -> tuple[InstallationId, Entry]:
    tenant = ask.installation
    found = book.entry(tenant, tx, ask.path["entry_id"]) if tenant is not None else None
    if tenant is None or found is None:
        raise not_here()
    if ask.caller.repos and (found.repo is None or not ask.caller.sees(found.repo)):
        raise not_here()
    return tenant, found


def _narrowed(ask: Ask, query: shapes.MemoryQuery) -> shapes.MemoryQuery:
    return query.model_copy(update={"repo": _narrow_repo(ask, query.repo)})


def _narrow_repo(ask: Ask, repo: str | None) -> str | None:
    """Who sees some repositories looks at one at a time."""
    if repo is not None or not ask.caller.repos:
        return repo
    return sorted(str(each) for each in ask.caller.repos)[0]


def _reach(ask: Ask, tx: Tx, tenant: InstallationId, repo: str | None) -> Any:
    if repo is None:
        return None
    try:
        name = RepoName.parse(repo)
    except ValueError:
        raise not_here() from None
    found = book.repo_named(tenant, tx, name) if ask.caller.sees(name) else None
    if found is None:
        # Nothing is known there, and nothing else may be shown instead.
        return -1
    return found


def _repos(ask: Ask, tx: Tx) -> list[str]:
    """The repositories to choose from."""
    if ask.caller.repos:
        return sorted(str(each) for each in ask.caller.repos)
    assert ask.installation is not None
    known = installations.repositories(ask.installation, tx)
    return sorted(f"{each.owner}/{each.name}" for each in known if each.owner and each.name)[:500]


def _person(ask: Ask) -> Person:
    return ask.caller.person or Person(None, f"ops:{ask.caller.name}")


def _page(tenant: InstallationId, entry_id: str) -> str:
    return url("memory", tenant, entry_id)


def _revocations(ask: Ask) -> str:
    return url("memory", "revocations", installation_id=ask.installation, repo=ask.form.get("repo"))


def show_task(ask: Ask, tx: Tx) -> Shown:
    """Which memory shaped one piece of work."""
    found, _ = choosing.task(ask, tx)
    after = ask.query.get("after", "")
    last = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else None
    lines = book.of_task(found.installation_id, tx, TaskId(found.id), after=last, limit=LINES + 1)
    shown = lines[:LINES]
    result: object = found.result
    recorded = result.get("memory") if isinstance(result, dict) else None
    return Shown(
        "memory_task.html",
        {
            "title": f"Memory of {found.verb} on {found.repo}#{found.thread}",
            "section": "tasks",
            "task": found,
            "groups": _groups(shown),
            "record": recorded if isinstance(recorded, dict) else {},
            "after": shown[-1].activity.seq if len(lines) > len(shown) else None,
        },
        rows=len(shown),
        target=found.id,
        owner=found.installation_id,
    )


def _groups(lines: list[Any]) -> dict[str, list[tuple[Any, str]]]:
    """By what became of them: supplied, used, proposed, refused."""
    groups: dict[str, list[tuple[Any, str]]] = {
        "Supplied": [],
        "Used": [],
        "Proposed": [],
        "Refused": [],
    }
    heading = {"supplied": "Supplied", "read": "Used", "proposed": "Proposed"}
    for line in lines:
        said = outcome(line.activity.outcome)
        good = line.activity.outcome in ("accepted", "unknown", "not_kept")
        groups[heading.get(line.activity.op, "Refused") if good else "Refused"].append((line, said))
    return groups


_WRITE = TokenScope.MEMORY_WRITE
_ENTRY = "/memory/<installation>/<entry_id>"
PAGES = (
    Page(path="/memory", name="memory", view=show_book),
    Page(path="/memory/export", name="memory_export", view=export),
    Page(path="/memory/revocations", name="memory_revocations", view=show_revocations),
    Page(path="/memory/revoke", name="memory_revoke", view=revoke, method="POST", scope=_WRITE),
    Page(path="/memory/lift", name="memory_lift", view=lift, method="POST", scope=_WRITE),
    Page(path=_ENTRY, name="memory_entry", view=show_entry, needs="installation"),
    Page(path="/tasks/<task_id>/memory", name="task_memory", view=show_task),
    *(
        Page(
            path=f"{_ENTRY}/{word}",
            name=f"memory_{name}",
            view=view,
            method="POST",
            scope=_WRITE,
            needs="installation",
        )
        for word, name, view in (
            ("approve", "approve", approve),
            ("deny", "deny", deny),
            ("redact", "redact", redact),
            ("revoke", "revoke_entry", revoke_entry),
        )
    ),
)
