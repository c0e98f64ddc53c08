"""What can go wrong between us and a repository, and how git's words map to it.

Git has no error codes worth the name; its messages (in the C locale, which we force) are the only
source. :func:`classify` is the one table.
"""

from __future__ import annotations

import signal

from coven.errors import WorkspaceError, WorkspaceUnavailable


class RepositoryNotFound(WorkspaceError):
    """Gone, renamed, or not visible to the token."""

    public = (
        "The repository could not be read: GitHub says it does not exist, was moved, or is not "
        "visible to this App."
    )


class CommitNotFound(WorkspaceError):
    """The wanted commit or ref is not on the remote (any more)."""

    public = "The commit to work on is not in the repository any more. Push again or re-run."


class AccessRefused(WorkspaceUnavailable):
    """401 or 403. The caller may try once with a fresh token."""

    public = "GitHub refused our access to the repository's code."


class TooBig(WorkspaceError):
    """A size limit stopped the work; what was written is removed."""

    public = "The repository or the change is larger than this App is set up to handle."


class MirrorCorrupt(WorkspaceUnavailable):
    """The cached copy is damaged; making it again usually helps."""

    public = "Our cached copy of the repository was damaged; we will make a new one."


class HostileRepository(WorkspaceError):
    """Git refused objects or names that could attack whoever checks them out."""

    public = (
        "The repository holds objects or file names that git considers unsafe, so it was not "
        "checked out."
    )


class CheckoutStopped(WorkspaceError):
    """The caller asked to stop while git was at work."""

    public = "The work was stopped."


class PushRefused(WorkspaceError):
    """The remote did not take the branch; pushing the same again will not help."""

    public = "GitHub did not accept the branch."


class EditsRefused(WorkspaceError):
    """The session's edits hold something that we do not publish; the message names it."""

    public = "The familiar's edits could not be published."


_HOSTILE = (
    "fsck error",
    "hasdotgit",
    "hasdotdot",
    "invalid path",
    "unable to checkout working tree",
)
_CORRUPT = (
    "is corrupt",
    "bad object",
    "bad signature",
    "not a git repository",
    "unable to read tree",
    "unable to read sha1 file",
    "unable to read ",
    "could not read object",
    "failed to read object",
    "inflate: ",
    "garbage at end of",
    "index file smaller",
    "does not match index",
    "packfile",
    "missing blob",
    "missing tree",
    "bad config",
    "bad tree object",
    "bad revision",
    "revision walk setup failed",
    "failed to traverse parents",
    "did not send all necessary objects",
)
_TABLE: tuple[tuple[type[WorkspaceError], tuple[str, ...]], ...] = (
    (
        TooBig,
        (
            "file too large",
            "exceeds maximum allowed size",
            f"died of signal {int(signal.SIGXFSZ)} ",
        ),
    ),
    (
        AccessRefused,
        (
            "authentication failed",
            "could not read username",
            "could not read password",
            "returned error: 401",
            "returned error: 403",
            "invalid username or password",
            "write access to repository not granted",
        ),
    ),
    (
        RepositoryNotFound,
        (
            "repository not found",
            "' not found",
            "returned error: 404",
            "returned error: 301",
            "returned error: 302",
            "returned error: 307",
            "returned error: 308",
            "returned error: 410",
            "redirect",
            "repository is empty",
        ),
    ),
    (
        CommitNotFound,
        ("not our ref", "couldn't find remote ref", "no such remote ref", "unadvertised object"),
    ),
    (
        PushRefused,
        ("[rejected]", "[remote rejected]", "stale info", "protected branch", "pre-receive hook"),
    ),
    (HostileRepository, _HOSTILE),
    (
        WorkspaceUnavailable,
        (
            "could not resolve host",
            "failed to connect",
            "connection",
            "timed out",
            "too slow",
            "early eof",
            "rpc failed",
            "hung up",
            "unexpected disconnect",
            "returned error: 5",
            "returned error: 429",
            "no space left",
            "disk quota exceeded",
            "ssl",
            "gnutls",
            "empty reply",
            "remote error",
            "unable to access",
        ),
    ),
    (MirrorCorrupt, _CORRUPT),
)


def classify(code: int, stderr: str) -> type[WorkspaceError]:
    """The error class for git's exit code and (redacted) standard error."""
    if code in {-signal.SIGXFSZ, 128 + signal.SIGXFSZ}:
        return TooBig
    text = " ".join(stderr.casefold().split()) + " "
    for kind, needles in _TABLE:
        if any(needle in text for needle in needles):
            return kind
    return WorkspaceUnavailable if code < 0 else WorkspaceError
