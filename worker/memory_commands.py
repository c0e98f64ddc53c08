"""``remember``, ``approve``, ``deny``, ``forget`` and ``memory``: maintainers and the memory book.

Each function decides inside the transaction that also ends the command (:mod:`worker.decisions`).
An id stands for exactly one text, so an answer to an id is an answer to what was shown under it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from coven import memory_shown
from coven import texts_memory_replies as texts
from coven.markdown import clean
from coven.memory.book import (
    SUMMARY_CHARS,
    Decided,
    Entry,
    EntryState,
    NewEntry,
    Refusal,
    Source,
    derived_key,
    parse_id,
)
from coven.memory.keys import KeyPrefix, MemoryKey, Owner
from coven.memory.pii import personal_data
from coven.memory.policy import memory_enabled
from coven.publication import CheckRunContent
from coven.redaction import MASK, Redactor
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import book, surfaces, tasks
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.values import RepoId, SurfaceKind, TaskId, TrustScope
from worker import escalation_commands
from worker.decisions import (
    Act,
    Command,
    Handler,
    Line,
    Said,
    answer_ids,
    carry_out,
    named_ids,
)

CLICK = "mem_approve"
"""The verb of a click on the memory button."""
LISTED = 200
"""Entries of a repository that ``memory`` looks at, by state."""

ENOUGH_WORDS = 12
"""Characters of a text from which on a piece of it names an entry."""

_HTML_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def decide(command: Command, tx: Tx, name: str, approve: bool) -> Line:
    """Approve or deny one proposal by its id."""
    task, voice, settings = command.task, command.voice, command.services.settings
    entry_id = parse_id(name)
    entry = book.entry(task.installation_id, tx, entry_id) if entry_id else None
    if entry is None or entry.repo_id != task.repo_id:
        # Also for what belongs to somebody else, of which nothing may be said.
        return Line(texts.refused_line(voice, name, Decided(None, Refusal.UNKNOWN)), good=False)
    if approve and not memory_enabled(settings, task.repo):
        return Line(texts.reply_memory_off(voice), good=False)
    decided = book.decide(
        task.installation_id,
        tx,
        entry.id,
        approve,
        command.by,
        entry.text_hash,
        command.now,
        four_eyes=settings.memory.four_eyes,
        repo_id=task.repo_id,
        keep=_keep(command.services),
    )
    return _line(command, tx, entry, decided, approve)


def _line(command: Command, tx: Tx, entry: Entry, decided: Decided, approve: bool) -> Line:
    voice = command.voice
    if decided.done and decided.entry is not None:
        said = (
            texts.approved_line(voice, decided, decided.entry)
            if approve
            else texts.denied_line(decided, decided.entry)
        )
        return Line(said, good=True, ring=_shown_anew(command, tx, decided.entry))
    instead = None
    if decided.refused is Refusal.TEXT_CHANGED and decided.entry is not None:
        instead = _latest(tx, decided.entry)
    return Line(
        texts.refused_line(voice, entry.id, decided, instead),
        good=False,
        ring=_shown_anew(command, tx, decided.entry, instead),
    )


def _latest(tx: Tx, entry: Entry) -> Entry:
    """What stands in place of a text that was replaced, however often."""
    seen = {entry.id}
    while entry.replaced_by is not None and entry.replaced_by not in seen:
        after = book.entry(entry.installation_id, tx, entry.replaced_by)
        if after is None:
            break
        seen.add(after.id)
        entry = after
    return entry


HANDLERS: Mapping[str, Handler] = {"M": decide, "E": escalation_commands.decide}
"""Who decides on an id, by its first letter."""


def answer(command: Command, tx: Tx) -> Said:
    """``approve`` and ``deny``: each id that is named."""
    approve = command.verb == "approve"
    ids = named_ids(command.args)
    if ids is None:
        waiting = memory_shown.pending_on_thread(tx, command.task)
        return Said(texts.reply_needs_id(command.voice, command.verb, waiting), good=False)
    return answer_ids(command, tx, ids, approve, HANDLERS)


def remember(command: Command, tx: Tx) -> Said:
    """``remember <text>``, or approval of the one proposal that waits on the thread."""
    task, voice, services = command.task, command.voice, command.services
    # What the maintainer can't see in their own comment, they did not ask for.
    text = clean(_HTML_COMMENT.sub("", command.args)).strip()
    ids = named_ids(text)
    if ids is not None and len(ids) == len(text.split()):
        return answer_ids(command, tx, ids, True, HANDLERS)
    if not text:
        waiting = memory_shown.pending_on_thread(tx, task)
        # What came after the comment was written is not what its author has read.
        if len(waiting) == 1 and waiting[0].created_at <= task.source_at:
            return answer_ids(command, tx, [waiting[0].id], True, HANDLERS)
        return Said(texts.reply_remember_what(voice, waiting), good=False)
    if not memory_enabled(services.settings, task.repo):
        return Said(texts.reply_memory_off(voice), good=False)
    if MASK in text or _redactor(services).has_secret(text):
        return Said(texts.reply_withheld(None), good=False)
    if len(text) > SUMMARY_CHARS:
        return Said(
            texts.reply_not_remembered(voice, Refusal.TOO_LONG, len(text), None), good=False
        )
    found = personal_data(text)
    if found is not None:
        return Said(texts.reply_withheld(found), good=False)
    key = derived_key(Owner(repo=task.repo), text)
    decided = book.remember(
        task.installation_id,
        tx,
        _own(command, key, text),
        command.by,
        command.now,
        keep=_keep(services),
    )
    if decided.refused is not None or decided.entry is None:
        why = decided.refused or Refusal.UNKNOWN
        return Said(texts.reply_not_remembered(voice, why, len(text), str(key)), good=False)
    return Said(texts.reply_remembered(voice, decided, decided.entry), good=True)


def forget(command: Command, tx: Tx) -> Said:
    """``forget <key|text|id>``: closes the place of the one entry that is meant."""
    task, voice = command.task, command.voice
    wanted = clean(command.args).strip().strip("`").strip()
    if not wanted:
        return Said(texts.reply_forget_nothing(voice, ""), good=False)
    target = _named_place(wanted)
    if target is not None and target.owner != Owner(repo=task.repo):
        return Said(texts.reply_forget_not_yours(), good=False)
    found = book.find(task.installation_id, tx, task.repo_id, wanted, limit=LISTED)
    if len(found) > 1 or (found and not _meant(found[0], wanted)):
        return Said(texts.reply_forget_which(voice, found), good=False)
    if found:
        name = found[0].id
    elif (target is not None and len(target.below) > 1) or parse_id(wanted):
        # Also what the book does not hold, or holds no more, can be closed.
        name = parse_id(wanted) or str(target)
    else:
        return Said(texts.reply_forget_nothing(voice, wanted), good=False)
    revoked = book.revoke(
        task.installation_id, tx, name, command.by, command.now, repo_id=task.repo_id
    )
    if revoked.refused is not None or revoked.target is None:
        return Said(texts.reply_forget_nothing(voice, wanted), good=False)
    taken = [
        entry
        for entry_id in revoked.entries
        if (entry := book.entry(task.installation_id, tx, entry_id)) is not None
    ]
    body = texts.reply_forgotten(revoked.target, taken, fresh=revoked.fresh)
    return Said(body, good=True, ring=_shown_anew(command, tx, *taken))


def _meant(entry: Entry, wanted: str) -> bool:
    """Whether the only entry that fits may go without asking: ``forget it`` is no name for one."""
    return (
        parse_id(wanted) == entry.id
        or entry.place == wanted.strip("/")
        or len(wanted) >= ENOUGH_WORDS
        or " ".join(wanted.split()).casefold() == " ".join(entry.summary.split()).casefold()
    )


def memory(command: Command, tx: Tx) -> Said:
    """``memory``: what waits for an answer here, and what runs are given."""
    task, services = command.task, command.services
    tenant = task.installation_id

    def of(*states: EntryState) -> list[Entry]:
        filters = book.Filters(repo_id=task.repo_id, states=states)
        return book.listed(tenant, tx, filters, limit=LISTED)

    usable = book.usable(tenant, tx, task.repo_id, command.now, shared=True, limit=LISTED)
    unused = of(EntryState.REJECTED, EntryState.REVOKED, EntryState.EXPIRED)
    body = texts.reply_memory(
        command.voice,
        of(EntryState.PENDING)[::-1],
        usable,
        others=[(state.value, n) for state, n in Counter(e.state for e in unused).items()],
        more=len(usable) >= LISTED,
        enabled=memory_enabled(services.settings, task.repo),
        public=command.public,
        pages=memory_shown.pages_of(services.settings, task),
    )
    return Said(body, good=True)


def clicked(command: Command, tx: Tx) -> Said:
    """The memory button: the one proposal that this Check Run offers, and no other text."""
    task, settings = command.task, command.services.settings
    offer, parent = _offer(tx, task)
    if parent is None:
        return Said(None, good=False)
    why = None
    if offer is None or offer.proposal is None:
        why = texts.STALE_BUTTON
    elif not memory_enabled(settings, task.repo):
        why = texts.OFF_BUTTON
    else:
        decided = book.decide(
            task.installation_id,
            tx,
            offer.proposal.id,
            True,
            command.by,
            offer.proposal.text_hash,
            command.now,
            four_eyes=settings.memory.four_eyes,
            repo_id=task.repo_id,
            keep=_keep(command.services),
        )
        if decided.done and decided.entry is not None:
            return Said(None, good=True, ring=_shown_anew(command, tx, decided.entry))
        own = decided.refused is Refusal.OWN_CHANGE
        why = texts.OWN_BUTTON if own else texts.STALE_BUTTON
    note = texts.clicked_in_vain(command.by.login, why)
    changed = memory_shown.of_tasks(settings, tx, [parent], command.now, note)
    return Said(None, good=False, ring=changed)


def _offer(tx: Tx, task: Task) -> tuple[CheckRunContent | None, Task | None]:
    """What the Check Run that was clicked on offers now, and whose it is."""
    tenant = task.installation_id
    parent = tasks.get(tenant, tx, task.parent_task_id) if task.parent_task_id else None
    if parent is None or parent.repo_id != task.repo_id:
        return None, None
    subject = f"task:{task.payload.get('check_run', '')}"
    shown = surfaces.find(tenant, tx, task.repo_id, SurfaceKind.CHECK_RUN, subject)
    if shown is None or shown.task_id != parent.id:
        return None, parent
    return CheckRunContent.model_validate(shown.desired), parent


ACTS: Mapping[str, Act] = {
    "remember": remember,
    "approve": answer,
    "deny": answer,
    "forget": forget,
    "memory": memory,
    CLICK: clicked,
    **escalation_commands.ACTS,
}
"""What maintainers decide, by verb."""


def run(services: Services, task: Task, familiar: Familiar) -> None:
    """Carry out what a task of :data:`ACTS` asks for. Raises ``LeaseLost`` and ``CovenError``."""
    carry_out(services, task, familiar, ACTS)


def _shown_anew(command: Command, tx: Tx, *changed: Entry | None) -> list[TaskId]:
    entries = [entry for entry in changed if entry is not None]
    return memory_shown.refresh(command.services.settings, tx, entries, command.now)


def _own(command: Command, key: MemoryKey, text: str) -> NewEntry:
    task = command.task
    return NewEntry(
        repo_id=RepoId(task.repo_id),
        repo=task.repo,
        key=key,
        summary=text,
        source=Source.COMMAND,
        trust=TrustScope.MAINTAINER,
        task_id=task.id,
        thread=task.thread,
        familiar_id=task.familiar_id,
        actor_id=command.by.id,
        actor_login=command.by.login,
        author_id=command.by.id,
        author_login=command.by.login,
    )


def _named_place(text: str) -> KeyPrefix | None:
    try:
        return KeyPrefix.parse(text)
    except ValueError:
        return None


def _keep(services: Services) -> timedelta | None:
    days = services.settings.memory.retention_days
    return timedelta(days=days) if days is not None else None


def _redactor(services: Services) -> Redactor:
    return services.redactor.with_live(*services.github.live_secrets())
