"""What an installation token may do: the least that each kind of work needs.

Every token is further limited to one repository by its numeric id. ``workflows`` is left out on
purpose, so that no push can change ``.github/workflows``.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

_RANK = {"read": 1, "write": 2, "admin": 3}


class Role(StrEnum):
    """Who will hold the token, and for what."""

    LOOKUP = "lookup"
    """Receiver: the rights of people."""
    PUBLISH = "publish"
    """Publisher: Check Runs, comments, reviews, pull requests; the worker's second look.
    Can't change contents."""
    CHECKOUT = "checkout"
    """Mirror fetches: reads contents."""
    PUSH = "push"
    """Write lanes: pushes one branch."""

    @property
    def permissions(self) -> dict[str, str]:
        """The ``permissions`` of the token request."""
        return dict(_PERMISSIONS[self])

    def problem_with(self, granted: dict[str, str]) -> str | None:
        """Why a granted set is not exactly this role, or None when it is.

        ``metadata: read`` comes with every token.
        """
        asked = self.permissions
        for name, level in asked.items():
            if _RANK.get(granted.get(name, ""), 0) < _RANK[level]:
                return f"{name}: {level} was not granted"
        for name, level in granted.items():
            allowed = "read" if name == "metadata" else asked.get(name, "")
            if _RANK.get(level, 9) > _RANK.get(allowed, 0):
                return f"{name}: {level} was granted without being asked for"
        return None


_PERMISSIONS = MappingProxyType(
    {
        Role.LOOKUP: {"metadata": "read"},
        Role.PUBLISH: {
            "checks": "write",
            "contents": "read",
            "issues": "write",
            "metadata": "read",
            "pull_requests": "write",
        },
        Role.CHECKOUT: {"contents": "read"},
        Role.PUSH: {"contents": "write"},
    }
)
