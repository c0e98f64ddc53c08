"""The guest's environment: built from nothing, by an allow-list.

Nothing is inherited from the worker except ``PATH`` and the provider keys that
``worker.env_allow`` names. The App key, webhook secrets, broker and database URLs therefore
can't reach a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from coven.errors import ConfigurationError

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

GIT_TOKEN = "COVEN_GIT_TOKEN"  # noqa: S105 - the name of a variable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_REFUSED = re.compile(
    r"COVEN_(?!SANDBOX_STATE\Z)|LD_|DYLD_|PYTHON|GIT_|BASH_|SSH_|NODE_OPTIONS\Z|PERL5?|RUBY|GITHUB_|GH_|DATABASE_URL\Z"
    r"|REDIS_URL\Z|CELERY_|(?:PATH|HOME|ENV|IFS|SHELL|TMPDIR|PWD|USER|LOGNAME)\Z",
    re.IGNORECASE,
)


def check_allowed(names: Iterable[str]) -> list[str]:
    """Problems with ``worker.env_allow``, one sentence each."""
    problems = []
    for name in names:
        if not _NAME.match(name):
            problems.append(f"worker.env_allow: {name[:60]!r} is not the name of a variable")
        elif _REFUSED.match(name):
            problems.append(
                f"worker.env_allow: {name} steers the session or may hold our own credentials; "
                "remove it and list provider keys only (such as ANTHROPIC_API_KEY)"
            )
    return problems


def provider_keys(allow: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that ``worker.env_allow`` names and ``environ`` holds.

    Raises ``ConfigurationError`` for a name that must never be handed on.
    """
    names = list(allow)
    problems = check_allowed(names)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return {name: environ[name] for name in names if environ.get(name)}


def child_environment(
    *,
    home: Path,
    engine_home: Path,
    temporary: Path,
    author_name: str,
    author_email: str,
    path: str = DEFAULT_PATH,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Everything in the guest's environment that is not a secret.

    ``extra`` is for the few further names that a profile or a test needs; it is trusted and can't
    replace what is set here.
    """
    fixed = {
        "PATH": path,
        "HOME": str(home),
        "COVEN_CODE_HOME": str(engine_home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "CI": "1",
        "NO_COLOR": "1",
        "NO_PROXY": "127.0.0.1,localhost,::1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": author_name,
        "GIT_AUTHOR_EMAIL": author_email,
        "GIT_COMMITTER_NAME": author_name,
        "GIT_COMMITTER_EMAIL": author_email,
    }
    return {**(extra or {}), **fixed}


def secret_environment(
    allow: Iterable[str], environ: Mapping[str, str], *, git_token: str | None = None
) -> dict[str, str]:
    """The variables whose values are masked: provider keys, and the push token for write lanes.

    A review session gets no ``git_token`` (the variable is then absent, not empty). Raises
    ``ConfigurationError`` as :func:`provider_keys` does.
    """
    secrets = provider_keys(allow, environ)
    if git_token:
        secrets[GIT_TOKEN] = git_token
    return secrets
