"""Memory around a session: what the brief grants, and what is made of the report.

There is no book of entries yet: nothing is kept as memory, handed out or revoked.
"""

from __future__ import annotations

from datetime import datetime

from coven.contract.result import Result
from coven.memory.policy import Grant, MemoryFacts, grant_for
from coven.memory.validation import Judged, judge_memory
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.store.tasks import Task
from worker.workspace.names import reserved_branch

NOTHING_REVOKED: tuple[str, ...] = ()
"""There is nothing to revoke before there is a book."""


def granted(settings: Settings, task: Task) -> Grant:
    """What this run may read and propose, from the facts of the second look."""
    head_ref = task.head_ref
    if head_ref is None and not task.is_pull:
        head_ref = reserved_branch(task.familiar_id, task.verb, task.thread, task.id)
    facts = MemoryFacts(
        installation_id=task.installation_id,
        account_id=task.account_id,
        account_login=task.account_login,
        repo_id=task.repo_id,
        repo=task.repo,
        private=task.repo_private,
        default_branch=task.default_branch,
        base_ref=task.base_ref,
        head_ref=head_ref,
        # A pull request whose head is not known is nobody's own.
        same_repo=not task.is_pull or task.head_repo_id == task.repo_id,
        trust=task.trust_scope,
        content_trust=task.content_trust,
    )
    return grant_for(settings, facts, NOTHING_REVOKED)


def judged(grant: Grant | None, result: Result, redactor: Redactor, now: datetime) -> Judged:
    """The decisions on what the run reported, against what was sent to it."""
    return judge_memory(grant, result.memory_used, NOTHING_REVOKED, redactor, now)
