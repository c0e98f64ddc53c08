"""Typed errors. Every class answers two questions: retry when, and what do we tell the person?

Subclasses are named by remedy, not by layer. ``retry`` is the default answer of the class;
``retry_after`` (seconds) on an instance says when, where GitHub or our back-off knows it.
"""

from __future__ import annotations

from enum import StrEnum


class Retry(StrEnum):
    """When an operation that raised may be tried again."""

    NEVER = "never"
    BACKOFF = "backoff"
    """Later, after ``retry_after`` seconds when set, else by the caller's back-off."""


class CovenError(Exception):
    """Base of all errors that we raise on purpose.

    ``str(error)`` is for operators and logs; ``public`` is safe to show on GitHub and names the
    next step. Neither may hold a secret.
    """

    retry: Retry = Retry.NEVER
    public: str = (
        "Something went wrong on our side. Ask the operator of this App to look at the logs."
    )

    def __init__(
        self, message: str, *, public: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        if public is not None:
            self.public = public
        self.retry_after = retry_after


class ConfigurationError(CovenError):
    """The configuration can't be used; the message names the key and the fix."""

    public = "This App is misconfigured. Ask its operator to run `coven-github doctor`."


class StoreUnavailable(CovenError):
    """The ledger can't be read or written now."""

    retry = Retry.BACKOFF
    public = "The task store is not reachable at the moment."


class LeaseLost(CovenError):
    """Another worker owns the task now; stop without touching anything."""


class GitHubError(CovenError):
    """Base of what GitHub answered; ``status`` is the HTTP status, 0 for no answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        public: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, public=public, retry_after=retry_after)
        self.status = status


class GitHubUnavailable(GitHubError):
    """No answer, time-out, or 5xx. A write may have happened: look before repeating it."""

    retry = Retry.BACKOFF
    public = "GitHub did not answer; we will try again."


class RateLimited(GitHubError):
    """Primary or secondary rate limit; ``retry_after`` is always set."""

    retry = Retry.BACKOFF
    public = "GitHub asked us to slow down; we will try again."


class GitHubUnauthorised(GitHubError):
    """401: the token is expired, revoked or wrong. A fresh token may help once."""

    retry = Retry.BACKOFF
    public = "GitHub refused our credentials."


class GitHubForbidden(GitHubError):
    """403 that is not a rate limit: the App lacks a permission."""

    public = (
        "GitHub refused this for lack of permission. An owner may need to approve the App's "
        "permissions in the repository or organisation settings."
    )


class GitHubNotFound(GitHubError):
    """404 or 410: gone, or not visible to the App."""

    public = "GitHub says that this does not exist, or that the App may not see it."


class GitHubRejected(GitHubError):
    """422, 400, 409 and other answers that repeating the same request will not change."""

    public = "GitHub did not accept the request."


class InstallationGone(GitHubError):
    """The App is uninstalled or suspended for this account."""

    public = "The App is not installed here any more, or is suspended."


class ContractViolation(CovenError):
    """Brief or result breaks the headless contract; the message names the field."""

    public = "The familiar's answer broke the contract, so nothing of it was used."


class WorkspaceError(CovenError):
    """The checkout could not be made and trying again will not help; the message says why."""

    public = "The repository could not be checked out."


class WorkspaceUnavailable(WorkspaceError):
    """The checkout failed for a reason that may pass (network, lock, disk)."""

    retry = Retry.BACKOFF


class GovernanceRefused(CovenError):
    """A rule refused the action before it happened."""

    public = "An agent-action rule refused this action."


class SecretFound(CovenError):
    """A secret stood where it must never be (brief, branch, path, sha)."""

    public = "A credential was found where none may be, so this was stopped."
