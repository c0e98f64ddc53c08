"""Who looks: a session's person or token, and the callers of the API that they stand for. Pure.

A token is one caller. A person who came through GitHub is one caller per installation, with the
repositories in which GitHub gives them rights. Every page asks as exactly one of these callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coven.api_tokens import TokenScope
from coven.values import InstallationId
from webhooks.api.auth import Caller


@dataclass(frozen=True, slots=True)
class Access:
    """What a session may see. ``callers`` is never empty."""

    name: str
    """How the page greets: a login, or the name of a token."""
    callers: tuple[Caller, ...]

    @property
    def is_operator(self) -> bool:
        """Whether all installations are seen."""
        return self.callers[0].installation is None

    @property
    def role(self) -> str:
        """``operator``, ``maintainer`` or ``viewer``, by what the best caller may do."""
        if self.is_operator and self.callers[0].may(TokenScope.ADMIN):
            return "operator"
        if any(caller.may(TokenScope.MEMORY_WRITE) for caller in self.callers):
            return "maintainer"
        return "viewer"

    @property
    def installations(self) -> Sequence[InstallationId]:
        """The installations that are named by this access; empty for operators, who see all."""
        return [each.installation for each in self.callers if each.installation is not None]

    def caller(self, installation: InstallationId | None) -> Caller | None:
        """The caller for an installation; without one, the only or first one. None: no access."""
        for each in self.callers:
            if each.installation is None or installation in (None, each.installation):
                return each
        return None
