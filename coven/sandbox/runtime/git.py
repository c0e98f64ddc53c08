"""The git commands that the runtime runs inside the session, without a shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT_SECS = 60


class GitFailed(Exception):
    """A git command ended with a failure; the text is its last line."""


class Checkout:
    """The workspace as a git work tree."""

    def __init__(self, root: Path, author: str) -> None:
        self.root = root
        self._author = author

    def git(self, *args: str) -> str:
        """Run git and return what it printed. Raises :class:`GitFailed`."""
        env = dict(os.environ)
        for role in ("AUTHOR", "COMMITTER"):
            env.setdefault(f"GIT_{role}_NAME", self._author)
            env.setdefault(f"GIT_{role}_EMAIL", "familiar@localhost")
        try:
            done = subprocess.run(  # noqa: TID251 - the guest is outside the effects seam
                ["git", *args],
                cwd=self.root,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GIT_SECS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitFailed(str(error)) from None
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise GitFailed(lines[-1] if lines else f"git {args[0]} failed")
        return done.stdout.decode("utf-8", "surrogateescape")

    def maybe(self, *args: str) -> str:
        """What git printed, or nothing when it failed: the real runtime ignores failures too."""
        try:
            return self.git(*args)
        except GitFailed:
            return ""

    @property
    def branch(self) -> str | None:
        """The current branch, or ``HEAD`` when detached; None when there is no commit."""
        return self.maybe("rev-parse", "--abbrev-ref", "HEAD").strip() or None

    @property
    def head(self) -> str | None:
        return self.maybe("rev-parse", "--verify", "--quiet", "HEAD").strip() or None

    def commits(self, default_branch: str) -> list[dict[str, str]]:
        """``origin/<default>..HEAD``, or ``<default>..HEAD`` when that gives nothing."""
        for base in (f"origin/{default_branch}", default_branch):
            found = self.log(f"{base}..HEAD")
            if found:
                return found
        return []

    def log(self, span: str) -> list[dict[str, str]]:
        """Commits of a range, newest first."""
        text = self.maybe("log", "--format=%H%x00%s", span, "--")
        pairs = (line.partition("\0") for line in text.splitlines() if line)
        return [{"sha": sha, "message": subject} for sha, _, subject in pairs]

    def files_changed(self, default_branch: str) -> list[str]:
        """Committed and modified tracked files; files that git does not know are not in it."""
        names: set[str] = set()
        for args in (
            ("HEAD",),
            ("--cached",),
            (f"origin/{default_branch}...HEAD",),
            (f"{default_branch}...HEAD",),
        ):
            names |= set(self.maybe("diff", "--name-only", "-z", *args, "--").split("\0"))
        return sorted(name for name in names if name)

    @property
    def dirty(self) -> bool:
        """Whether a tracked file differs from the commit; new files do not count."""
        return bool(self.maybe("diff", "--name-only", "HEAD", "--").strip())

    def tracked(self) -> list[str]:
        return [name for name in self.maybe("ls-files", "-z").split("\0") if name]

    def read(self, name: str) -> str | None:
        """A regular file of at most 1 MiB inside the work tree, as text; else None."""
        path = self.root / name
        try:
            if not path.resolve().is_relative_to(self.root.resolve()) or path.is_symlink():
                return None
            if not path.is_file() or path.stat().st_size > 2**20 or ".git" in Path(name).parts:
                return None
            data = path.read_bytes()
        except (OSError, ValueError):
            return None
        return None if b"\0" in data[:8000] else data.decode("utf-8", "replace")
