"""The middle of an attempt: a checkout and a brief go in, an exit code and a result come out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from coven.contract.brief import CONTRACT_VERSION, serialise
from coven.contract.cleaning import clean
from coven.contract.exit_codes import ProcessEnd
from coven.contract.result import ResultReading, read_result
from coven.errors import GovernanceRefused, SecretFound
from coven.github.models import Token
from coven.github.roles import Role
from coven.governance.wire import governed_write
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar
from coven.store.tasks import Task
from coven.values import Lane, Sha
from worker import tool_rules
from worker.brief import build_brief
from worker.lease import LeaseKeeper
from worker.memory import SessionMemory, hand_out
from worker.profiles import Profile, profile_for
from worker.runtime.backend import Backend
from worker.runtime.choose import choose
from worker.runtime.environment import child_environment, secret_environment
from worker.runtime.session import Limits, SessionSpec
from worker.runtime.supervise import run_session
from worker.tool_rules import Asked, Reconciled, ToolRules
from worker.workspace.changes import Changes
from worker.workspace.checkout import CheckoutRequest, Workspace, Workspaces, changes
from worker.workspace.errors import AccessRefused
from worker.workspace.names import reserved_branch

PULSE_SECS = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A checkout with everything a session needs, and what must be cleaned up after it."""

    services: Services
    task: Task
    familiar: Familiar
    profile: Profile
    workspaces: Workspaces
    workspace: Workspace
    changes: Changes
    redactor: Redactor
    backend: Backend
    tokens: Tokens
    push_token: Token | None
    branches_before: frozenset[str] | None
    """Branches of the familiar before a session that pushes by itself."""
    memory: SessionMemory
    """What the brief grants; what comes back is judged against this and nothing else."""
    tools: ToolRules | None = None
    """The rules for tool calls inside the session; None while they are switched off."""

    def clean_up(self) -> None:
        """Remove the checkout and revoke the task's own tokens. Never raises."""
        try:
            self.workspaces.remove(self.workspace)
        except (OSError, GovernanceRefused) as error:
            _log.error("workspace_not_removed", why=str(error))
        self.tokens.revoke()


class Tokens:
    """The tokens of one attempt that reach code: nobody else uses them, and all are revoked."""

    def __init__(self, services: Services, task: Task) -> None:
        self._github = services.github
        self._task = task
        self._held: list[Token] = []

    def mint(self, role: Role) -> Token:
        """A token for the task's repository alone. Raises ``GitHubError``."""
        token = self._github.own_token(self._task.installation_id, self._task.repo_id, role)
        self._held.append(token)
        return token

    def revoke(self) -> None:
        """Make all of them worthless. Never raises: they also expire by themselves."""
        while self._held:
            self._github.revoke(self._held.pop())


def prepare(
    services: Services,
    task: Task,
    familiar: Familiar,
    redactor: Redactor,
    stop: Callable[[], str | None],
) -> Prepared:
    """Check out exactly the pinned commit and write the brief beside it.

    Raises ``ConfigurationError``, ``WorkspaceError``, ``GitHubError``, ``SecretFound``.
    """
    # First of all: a backend that would not keep tenants apart gets no code to run.
    backend = choose(services.settings)
    tokens = Tokens(services, task)
    try:
        return _prepare(services, task, familiar, redactor, stop, backend, tokens)
    except BaseException:
        tokens.revoke()
        raise


def _prepare(
    services: Services,
    task: Task,
    familiar: Familiar,
    redactor: Redactor,
    stop: Callable[[], str | None],
    backend: Backend,
    tokens: Tokens,
) -> Prepared:
    settings = services.settings
    profile = profile_for(settings, task.lane)
    token = tokens.mint(Role.CHECKOUT)
    redactor = redactor.with_live(token.value)
    workspaces = Workspaces(settings, services.seam, services.clock, redactor)
    request = checkout_request(workspaces, task)
    try:
        workspace = workspaces.checkout(request, token.value, lambda: stop() is not None)
    except AccessRefused:
        # A new token may take a moment to be known everywhere: once more with another one.
        token = tokens.mint(Role.CHECKOUT)
        redactor = redactor.with_live(token.value)
        workspace = workspaces.checkout(request, token.value, lambda: stop() is not None)
    try:
        found = changes(workspaces, workspace)
        push_token, before = None, None
        if profile.hands_token and task.lane is Lane.FIX:
            before = frozenset(workspaces.remote_branches(request, token.value, task.familiar_id))
            # Last of all, so that the session has as much of its hour as possible.
            push_token = tokens.mint(Role.PUSH)
            redactor = redactor.with_live(push_token.value)
        memory = hand_out(services, task, redactor)
        brief = build_brief(
            task,
            familiar,
            settings,
            workspace,
            found,
            redactor=redactor,
            granted_memory=memory.supply.text,
            memory_policy=memory.grant.policy,
        )
        governed_write(
            services.seam, workspace.brief_path, serialise(brief, redactor), point="brief.write"
        )
        tools = tool_rules.install(services, task, workspace)
    except BaseException:
        workspaces.remove(workspace)
        raise
    return Prepared(
        services,
        task,
        familiar,
        profile,
        workspaces,
        workspace,
        found,
        redactor,
        backend,
        tokens,
        push_token,
        before,
        memory,
        tools,
    )


def run(
    services: Services,
    prepared: Prepared,
    keeper: LeaseKeeper,
) -> tuple[ProcessEnd, ResultReading, Asked | None]:
    """Run the session to its end; what it left, and the call that a person has to approve."""
    settings, workspace = services.settings, prepared.workspace
    worker = settings.worker
    token = prepared.push_token.value if prepared.push_token else None
    secrets = secret_environment(worker.env_allow, os.environ, git_token=token)
    public = child_environment(
        home=workspace.home,
        engine_home=workspace.engine_home,
        temporary=workspace.home / "tmp",
        author_name=prepared.familiar.display_name,
        author_email=f"{prepared.familiar.id}@users.noreply.github.com",
    )
    spec = SessionSpec(
        argv=tuple(
            prepared.profile.command(
                settings,
                workspace,
                prepared.familiar,
                memory_reads=bool(prepared.memory.grant.policy.read_scopes),
            )
        ),
        env=public,
        cwd=workspace.tree,
        writable=(workspace.tree, workspace.home, workspace.out_dir),
        readable=(workspace.brief_path, workspace.mirror.path),
        timeout_secs=worker.timeout_secs,
        grace_secs=worker.grace_secs,
        limits=Limits(
            memory_bytes=worker.memory_bytes,
            file_bytes=worker.file_bytes,
            processes=worker.processes,
            workspace_bytes=worker.workspace_bytes,
        ),
        network=worker.network,
        secrets_env=secrets,
    )
    tools = prepared.tools
    if tools is not None:
        spec = tools.confine(spec)
        tool_rules.prove(services, tools, spec, prepared.backend)
    began = services.clock.now().timestamp()
    end = run_session(
        spec,
        prepared.backend,
        services.seam,
        services.clock,
        prepared.redactor,
        keeper.stop_reason,
        PULSE_SECS,
    )
    told = Reconciled() if tools is None else tool_rules.reconcile(services, tools, prepared.task)
    reading = read_result(
        workspace.out_dir,
        workspace.result_name,
        not_before=began - 1.0,
        expected_version=CONTRACT_VERSION,
        default_branch=workspace.default_branch,
        review=prepared.task.lane is Lane.REVIEW,
    )
    if reading.result is not None:
        try:
            masked = clean(reading.result, prepared.redactor)
        except SecretFound as error:
            reading = replace(reading, result=None, problem=str(error))
        else:
            reading = replace(reading, result=masked)
    if told.problem is not None:
        note = f"governance_incomplete: {told.problem}"
        reading = replace(reading, tolerated=[*reading.tolerated, note])
    return end, reading, told.asked


def checkout_request(workspaces: Workspaces, task: Task) -> CheckoutRequest:
    """Which commit to check out, and on which reserved branch."""
    if task.head_sha is None or task.default_branch is None:
        raise ValueError("the second look pins the head first")
    return CheckoutRequest(
        installation_id=task.installation_id,
        repo_id=task.repo_id,
        repo=task.repo,
        task_id=task.id,
        number=task.thread,
        is_pull=task.is_pull,
        head_sha=Sha(task.head_sha),
        base_ref=task.base_ref,
        base_sha=Sha(task.base_sha) if task.base_sha else None,
        default_branch=task.default_branch,
        branch=reserved_branch(task.familiar_id, task.verb, task.thread, task.id),
        trusted=not task.from_fork and task.lane is Lane.FIX,
        clone_url=workspaces.clone_url(task.repo),
    )
