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
class Profile:
    """The authority of one session, and the command that starts it."""

    name: Literal["contract-v2", "coven-code"]
    mode: Mode
    """``review`` reads; ``edit`` pushes by itself; ``repair`` leaves edits for us to publish."""

    @property
    def hands_token(self) -> bool:
        """Whether the child gets ``COVEN_GIT_TOKEN`` and pushes by itself."""
        return self.mode == "edit"

    @property
    def hosted_repair(self) -> bool:
        """Whether we import, commit and push the edits."""
        return self.mode == "repair"

    def command(
        self,
        settings: Settings,
        workspace: Workspace,
        familiar: Familiar | None = None,
        *,
        memory_reads: bool = False,
    ) -> list[str]:
        """The argument list.

        ``memory_reads``: whether the memory policy grants any reading. Without it, and for
        untrusted heads always, the runtime is told to load no instructions of the repository.
        """
        worker = settings.worker
        in_container = worker.backend == "container"
        argv = [
            # First, since the runtime looks for subcommands and --version before anything else.
            worker.container.coven_code_bin if in_container else worker.coven_code_bin,
            "--headless",
            "--context",
            str(workspace.brief_path),
            "--output",
            str(workspace.result_path),
        ]
        if self.name == "contract-v2":
            return argv
        argv.append("--hosted-repair" if self.hosted_repair else "--hosted-review")
        # The default of 10 turns ends real work in an infra error; reviews set their own 40.
        argv += ["--max-turns", str(worker.max_turns)]
        # Pins the built-in agent, so that settings in a repository can't choose another one.
        argv += ["--agent", "build"]
        model = model_id(settings, familiar)
        if model is not None:
            argv += ["--model", model]
        if not workspace.trusted or not memory_reads:
            argv.append("--no-claude-md")
        return argv


def profile_for(settings: Settings, lane: Lane) -> Profile:
    """How ``worker.profile`` runs a lane. Raises ``ValueError`` for control: it has no session."""
    if lane is Lane.CONTROL:
        raise ValueError("the control lane has no session")
    name = settings.worker.profile
    if lane is Lane.REVIEW:
        return Profile(name, "review")
    return Profile(name, "edit" if name == "contract-v2" else "repair")


def model_id(settings: Settings, familiar: Familiar | None) -> str | None:
    """The familiar's model as the runtime takes it.

    The runtime of today sends the id to the provider as it stands, so ``anthropic/`` is cut off.
    """
    if familiar is None or not familiar.model:
        return None
    if settings.worker.profile == "coven-code":
        return familiar.model.removeprefix(_ANTHROPIC) or None
    return familiar.model
