"""How a task maps to the command line and the authority of a runtime.

``contract-v2`` is the letter of the headless contract: the runtime edits, commits and pushes.
``coven-code`` is the runtime of today: it reviews read-only, or edits with file tools only and
leaves committing and pushing to us. Facts: ``docs/workspace.md``, "Profiles".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coven.settings.models import Familiar, Settings
from coven.values import Lane
from worker.workspace.checkout import Workspace

Mode = Literal["review", "edit", "repair"]
_ANTHROPIC = "anthropic/"


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start and with which authority."""

    argv: tuple[str, ...]
    mode: Mode
    """``review`` reads; ``edit`` pushes by itself; ``repair`` leaves edits for us to publish."""
    push_by_runtime: bool
    """Whether the child gets ``COVEN_GIT_TOKEN``."""
    hosted_repair: bool
    """Whether we import, commit and push the edits."""


def command(
    settings: Settings,
    workspace: Workspace,
    lane: Lane,
    familiar: Familiar | None = None,
    *,
    memory_reads: bool = False,
) -> Launch:
    """The command of one session, by ``worker.profile``.

    ``memory_reads``: whether the memory policy grants any reading; without it, and for untrusted
    heads always, the runtime is told to load no instructions of the repository.
    Raises ``ValueError`` for the control lane, which has no session.
    """
    if lane is Lane.CONTROL:
        raise ValueError("the control lane has no session")
    worker = settings.worker
    binary = (
        worker.container.coven_code_bin if worker.backend == "container" else worker.coven_code_bin
    )
    argv = [
        # First, since the runtime looks for subcommands and --version before anything else.
        binary,
        "--headless",
        "--context",
        str(workspace.brief_path),
        "--output",
        str(workspace.result_path),
    ]
    writes = lane is Lane.FIX
    if worker.profile == "contract-v2":
        return Launch(tuple(argv), "edit" if writes else "review", writes, hosted_repair=False)
    argv.append("--hosted-repair" if writes else "--hosted-review")
    # The default of 10 turns ends real work in an infra error; reviews set their own 40.
    argv += ["--max-turns", str(worker.max_turns)]
    # Pins the built-in agent, so that settings in a repository can't choose another one.
    argv += ["--agent", "build"]
    model = model_id(settings, familiar)
    if model is not None:
        argv += ["--model", model]
    if not workspace.trusted or not memory_reads:
        argv.append("--no-claude-md")
    return Launch(tuple(argv), "repair" if writes else "review", False, hosted_repair=writes)


def model_id(settings: Settings, familiar: Familiar | None) -> str | None:
    """The familiar's model as the runtime takes it.

    The runtime of today sends the id to the provider as it stands, so ``anthropic/`` is cut off.
    """
    if familiar is None or not familiar.model:
        return None
    if settings.worker.profile == "coven-code":
        return familiar.model.removeprefix(_ANTHROPIC) or None
    return familiar.model
