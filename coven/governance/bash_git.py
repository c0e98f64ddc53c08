"""What ``git`` writes, reaches and rewrites, by its arguments. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from coven.governance.bash_options import split
from coven.governance.bash_shapes import CREATE, MODIFY, Write
from coven.governance.bash_words import UNKNOWN, Fields, is_known, source_text

_GLOBAL_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env",
     "--super-prefix", "--attr-source"}
)  # fmt: skip


_READING = frozenset({"status", "log", "diff", "show", "ls-files", "rev-parse", "grep", "blame"})


class Git(NamedTuple):
    """A git command without its global options."""

    command: str
    rest: Fields
    folder: str
    """Where ``-C`` leads; empty for here."""
    git_dir: str | None
    work_tree: str | None


def read(fields: Fields) -> Git | None:
    """Take the global options off; None when there is no subcommand."""
    at, folder, git_dir, work_tree = 0, "", None, None
    while at < len(fields) and fields[at].startswith("-"):
        option, sign, value = fields[at].partition("=")
        takes = option in _GLOBAL_VALUED and not sign
        value = value if sign else fields[at + 1] if takes and at + 1 < len(fields) else ""
        if option == "-C" and takes:
            folder = value if value.startswith("/") or not folder else f"{folder}/{value}"
        elif option == "--git-dir":
            git_dir = value
        elif option == "--work-tree":
            work_tree = value
        at += 2 if takes else 1
    if at >= len(fields):
        return None
    return Git(fields[at], fields[at + 1 :], folder, git_dir, work_tree)


def git_writes(fields: Fields) -> list[Write]:
    """Paths that a git command names, and its settings."""
    git = read(fields)
    if git is None:
        return []
    if git.work_tree is not None and git.command not in _READING:
        return [Write(git.work_tree, MODIFY), Write(UNKNOWN, MODIFY)]
    base = git.folder.rstrip("/")

    def here(path: str) -> str:
        return path if path.startswith("/") or not base else f"{base}/{path}"

    rest = git.rest
    if git.command == "clone":
        given = split(rest, "-b -o -u -c -j --branch --origin --depth --reference --template "
                            "--separate-git-dir --filter --config --jobs")  # fmt: skip
        found = [Write(here(path), CREATE) for path in given.values("--separate-git-dir")]
        if len(given.operands) > 1:
            return [*found, Write(here(given.operands[1]), CREATE)]
        leaf = given.operands[0].rstrip("/").rpartition("/")[2] if given.operands else "."
        return [*found, Write(here(leaf.removesuffix(".git") or "."), CREATE)]
    if git.command == "init":
        given = split(rest, "-b --initial-branch --template --separate-git-dir --object-format")
        folders = [path for path in (git.git_dir, *given.values("--separate-git-dir")) if path]
        return [Write(here(path), CREATE) for path in (*folders, *(given.operands or (".",)))]
    if git.command == "worktree" and rest[:1] in (("add",), ("move",), ("remove",)):
        operands = split(rest[1:], "-b -B --reason").operands
        which = operands[1:2] if rest[0] == "move" else operands[:1]
        return [Write(here(path), CREATE) for path in which]
    if git.command == "config":
        return _config(rest, here, git.git_dir)
    if git.command == "remote" and rest[:1] in (("add",), ("set-url",), ("rename",), ("remove",)):
        return [Write(here(".git/config"), MODIFY)]
    if git.command in ("rm", "mv", "checkout", "restore"):
        return _paths(git, here)
    files: list[str] = []
    for at, field in enumerate(rest):
        name, sign, value = field.partition("=")
        if name in ("--output", "--output-directory", "-o") and git.command in (
            "diff", "log", "show", "archive", "format-patch"
        ):  # fmt: skip
            files.append(value if sign else rest[at + 1] if at + 1 < len(rest) else UNKNOWN)
        elif field.startswith("-o") and git.command in ("archive", "format-patch"):
            files.append(field[2:])
    if git.command == "bundle" and rest[:1] == ("create",) and len(rest) > 1:
        files.append(rest[1])
    return [Write(here(path), CREATE) for path in files]


def _config(rest: Fields, here: object, git_dir: str | None) -> list[Write]:
    given = split(rest, "-f --file --type --default --blob")
    reading = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
    operands = list(given.operands)
    verb = operands[0] if operands and operands[0] in ("set", "unset", "list", "get") else ""
    if given.has(*reading) or verb in ("list", "get"):
        return []
    changing = given.has("--unset", "--unset-all", "--add", "--replace-all", "--rename-section",
                         "--remove-section", "--edit", "-e")  # fmt: skip
    if len(operands) < 2 and not changing:
        return []
    files = given.values("-f", "--file")
    if files:
        return [Write(here(path), MODIFY) for path in files]  # type: ignore[operator]
    if given.has("--global"):
        return [Write("~/.gitconfig", MODIFY)]
    if given.has("--system"):
        return [Write("/etc/gitconfig", MODIFY)]
    return [Write(here(f"{git_dir or '.git'}/config"), MODIFY)]  # type: ignore[operator]


def _paths(git: Git, here: object) -> list[Write]:
    fields = git.rest
    if "--" in fields:
        chosen: Fields = fields[fields.index("--") + 1 :]
    elif git.command in ("rm", "mv", "restore"):
        chosen = split(fields, "-s --source --pathspec-from-file").operands
    else:
        return []
    return [Write(here(path), MODIFY) for path in chosen]  # type: ignore[operator]


_PUSH_VALUED = "-o --push-option --receive-pack --exec --repo"
_PUSH_LONG = ("--force", "--force-with-lease", "--mirror", "--delete", "--prune", "--all",
              "--follow-tags", "--tags", "--no-verify", "--set-upstream", "--dry-run")  # fmt: skip


def canonical(fields: Fields) -> tuple[Fields, ...]:
    """The same command without global options; a push that rewrites or deletes in plain words.

    However it is spelt (``-uf``, ``+ref``, ``--mirror``, ``:ref``), a rewriting push comes out with
    ``--force`` and ``-f``, a deleting one with ``--delete`` and ``-d``.
    """
    git = read(fields)
    if git is None:
        return ()
    plain: Fields = ("git", git.command, *git.rest)
    if git.command not in ("push", "send-pack"):
        return (plain,)
    given = split(git.rest, _PUSH_VALUED, "--force-with-lease --force-if-includes")
    names = {_long(name) for name, _ in given.options}
    refs = given.operands[1:]
    force = bool({"-f", "--force", "--force-with-lease", "--mirror"} & names)
    force = force or any(ref.startswith("+") for ref in given.operands)
    delete = bool({"-d", "--delete", "--mirror", "--prune"} & names)
    delete = delete or any(re.match(r"\+?:.", ref) for ref in refs)
    marks: list[str] = []
    marks += ["--force", "-f"] if force else []
    marks += ["--delete", "-d"] if delete else []
    return (("git", "push", *marks, *git.rest),) if marks else (plain,)


def _long(name: str) -> str:
    if name in _PUSH_LONG or not name.startswith("--") or len(name) < 5:
        return name
    return next((one for one in _PUSH_LONG if one.startswith(name)), name)


_SERVER = re.compile(
    r"(?i)(?:(?:remote\..*\.(?:push)?url|https?\.(?:.*\.)?proxy|remote\..*\.proxy)=(.*)"
    r"|url\.(.*)\.(?:push)?insteadof=.*)",
    re.DOTALL,
)


def _server(setting: str, option: str) -> str | None:
    """Where ``-c setting`` sends git; None for any other word."""
    found = _SERVER.fullmatch(setting) if option == "-c" else None
    return (found[1] or found[2]) if found else None


def remotes(fields: Fields) -> list[str]:
    """URLs that a git command reaches."""
    git = read(fields)
    servers = [value for value in map(_server, fields[1:], fields) if value]
    if git is None or git.command not in (
        "clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive",
        "fetch-pack", "send-pack", "http-fetch", "http-push", "request-pull",
    ):  # fmt: skip
        return servers
    found = servers
    for field in git.rest:
        value = field.partition("=")[2] if field.startswith("--") else field
        shown = source_text(value)
        if re.match(r"[a-z+]+://", shown) or re.match(
            r"[\w.-]+@[\w.-]+:|[\w-]+(\.[\w-]+)+:", shown
        ):
            found.append(value)
    given = split(git.rest, _PUSH_VALUED + " -b --branch -c --depth -j")
    first = given.operands[:1]
    if first and not is_known(first[0]) and first[0] not in found:
        found.append(first[0])
    return found
