"""What a shell command does, by its syntax and without running it: ``analyse``. Pure.

Every simple command is reported with its words decoded, also those inside wrappers, ``sh -c``,
``eval``, here-documents and substitutions; what they write, reach and start is derived from them.
What can't be read is a fact of its own, never silence. The limits are stated in
``docs/governance-hook.md``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from coven.governance import bash_git, bash_hosts, bash_writes
from coven.governance.actions import (
    Action,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
)
from coven.governance.bash_inner import Inner
from coven.governance.bash_options import split
from coven.governance.bash_peel import environment, family, name_of, peel
from coven.governance.bash_scope import Scope, Variables, join
from coven.governance.bash_shapes import CREATE
from coven.governance.bash_tree import parse
from coven.governance.bash_walk import Redirect, Walk
from coven.governance.bash_words import (
    GLOB,
    SPLIT,
    UNKNOWN,
    Fields,
    Unreadable,
    is_known,
    names,
    source_text,
)
from coven.governance.matchers import BashFacts, Derived, SimpleCommand

MAX_DEPTH = 4
"""Shells and wrappers inside each other."""

MAX_COMMANDS = 2000
MAX_CODE_CHARS = 256 * 1024
"""Shell code of all inner shells together."""

MAX_MATCHES = 256
"""Files that one pattern may stand for."""

Expand = Callable[[str], Iterable[str]]
"""The paths that a pattern matches right now, relative to where the command starts."""

_BUILTINS = names(
    "cd pushd popd export declare local readonly typeset unset set shopt eval source . : alias "
    "unalias trap read mapfile readarray return exit shift wait jobs fg bg disown ulimit umask "
    "hash type getopts let break continue echo printf test [ true false dirs history bind "
    "builtin caller complete enable help logout suspend times exec command"
)
_HOME = re.compile(r"(?<![$\w{])HOME\b")
_NOWHERE = re.compile(r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/\d+)\Z")
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class Shell(NamedTuple):
    """What a shell that outlives its commands may have kept of them."""

    cwds: tuple[str, ...] = ("",)
    """Folders that it may stand in; ``""`` is where it began, ``ANYWHERE`` is any."""
    home: str | None = None
    """Where ``~`` leads; None when nobody knows."""


ANYWHERE = UNKNOWN


def analyse(
    command: str,
    *,
    home: str | None = None,
    expand: Expand | None = None,
    cwds: tuple[str, ...] = ("",),
) -> BashFacts:
    """The facts of one command text. Never raises.

    ``home`` is where ``~`` leads, ``cwds`` are the folders that the command may start in. Paths
    that it writes relatively stay relative. Without ``expand`` nobody knows which files a pattern
    stands for.
    """
    found = _Findings(home, expand)
    found.run(command, cwds)
    return found.facts(command)


def afterwards(command: str, before: Shell) -> Shell:
    """What a shell may keep of a command that ran in it, or that did not run to its end."""
    found = _Findings(before.home, None)
    cwds = found.run(command, before.cwds)
    both = Scope().at((*before.cwds, *(cwd if cwd == UNKNOWN else _plain(cwd) for cwd in cwds)))
    return Shell(both.cwds, before.home if found.keeps_home else None)


def _plain(cwd: str) -> str:
    return posixpath.normpath(cwd) if cwd else cwd


class _Findings:
    """Collects what the walks report."""

    def __init__(self, home: str | None, expand: Expand | None) -> None:
        self._home = home
        self._expand = expand
        self._commands: dict[SimpleCommand, None] = {}
        self._derived: dict[Derived, None] = {}
        self._texts: list[str] = []
        self._troubles: dict[str, None] = {}
        self._opaque: dict[str, None] = {}
        self._code_chars = 0
        self._seen = 0
        self.keeps_home = True
        """Whether nothing may have changed ``HOME``."""

    def run(self, command: str, cwds: tuple[str, ...]) -> tuple[str, ...]:
        """Find everything out; the folders that the shell may stand in afterwards."""
        try:
            end = self.code(command, Scope().at(cwds), same_shell=True, outermost=True)
        except RecursionError:
            self.trouble("too deeply nested")
            return (UNKNOWN,)
        return end.cwds

    def facts(self, command: str) -> BashFacts:
        """The result."""
        return BashFacts(
            decoded="\n".join(self._texts) or command,
            commands=tuple(self._commands),
            derived=tuple(self._derived),
            unanalysable="; ".join(list(self._troubles)[:3]) or None,
            opaque_code="; ".join(list(self._opaque)[:3]) or None,
        )

    def trouble(self, why: str) -> None:
        """Something that can't be judged."""
        self._troubles[why] = None

    def code(self, text: str, scope: Scope, *, same_shell: bool, outermost: bool = False) -> Scope:
        """Walk through shell code; the scope after it."""
        self._code_chars += len(text)
        if scope.depth > MAX_DEPTH or self._code_chars > MAX_CODE_CHARS:
            self.trouble("too many shells inside each other")
            return scope.at((UNKNOWN,)) if same_shell else scope
        if not is_known(text.replace(GLOB, "")):
            self.trouble("code that is made at run time")
            text = text.replace(UNKNOWN, "$_").replace(SPLIT, "$_")
        text = text.replace(GLOB, "")
        if _HOME.search(text):
            self._home = None  # an inner shell may inherit what is set here
        variables = Variables(self._home)
        try:
            source = text.encode("utf-8")
            end = Walk(parse(source), source, variables, self).run(scope)
        except (Unreadable, UnicodeEncodeError) as error:
            self.trouble(str(error) if isinstance(error, Unreadable) else "not UTF-8")
            self.keeps_home = False
            return scope.at((UNKNOWN,)) if same_shell else scope
        if same_shell and not variables.leaves("HOME"):
            self.keeps_home = False
        if same_shell and variables.assigned and not outermost:
            self.trouble("code in a string that sets variables")
        return end if same_shell else scope

    # What a walk reports.

    def command(self, argv: Fields, scope: Scope, redirects: tuple[Redirect, ...]) -> Scope:
        """A simple command runs; the scope after it."""
        self._seen += 1
        if self._seen > MAX_COMMANDS:
            raise Unreadable("too many commands")
        for redirect in redirects:
            self.redirect(redirect, scope)
        if not argv:
            return scope
        if any(field.startswith("HOME=") for field in argv):
            self._home = None
        self._note(argv)
        if not is_known(argv[0]):
            self.trouble("a program that is known at run time only")
            return scope
        self._spawn(argv)
        found = bash_git.git_writes(argv[1:]) if name_of(argv[0]) == "git" else []
        for write in found or bash_writes.writes(argv):
            self._write(write.path, write.op, scope)
        for request in bash_hosts.requests(argv):
            self._request(request)
        then = scope
        for inner in peel(argv, scope.stdin):
            then = self._inner(inner, argv, then)
        return self._moved(argv, then)

    def redirect(self, redirect: Redirect, scope: Scope) -> None:
        """A redirection: a file or a connection."""
        for target in redirect.targets:
            device = bash_hosts.device(target)
            if device is not None:
                self._request(device)
            elif redirect.operator in _WRITING:
                duplicate = redirect.operator == ">&" and re.match(r"(\d+-?|-)\Z", target)
                if not duplicate:
                    self._write(target, CREATE, scope)

    def assignment(self, name: str, values: tuple[str, ...], scope: Scope) -> None:
        """A variable gets one of these values."""
        for value in values:
            for inner in environment(name, value):
                self._inner(inner, (), scope)

    # What follows from it.

    def _inner(self, inner: Inner, argv: Fields, scope: Scope) -> Scope:
        deeper = scope.deeper()
        if inner.moved is not None:
            deeper = deeper.moved(inner.moved)
        if inner.trouble is not None:
            self.trouble(inner.trouble)
        if inner.opaque is not None:
            self._opaque[inner.opaque] = None
            for request in bash_hosts.requests_in(" ".join((*argv, scope.stdin))):
                self._request(request)
        if inner.url is not None:
            self._request(bash_hosts.url_request(inner.url))
        then = scope
        if inner.code is not None:
            then = self.code(inner.code, deeper, same_shell=inner.same_shell)
        if inner.argv:
            if deeper.depth > MAX_DEPTH:
                self.trouble("too many wrappers around each other")
            else:
                then = self.command(inner.argv, deeper, ())
        return scope.at(then.cwds) if inner.same_shell else scope

    def _moved(self, argv: Fields, scope: Scope) -> Scope:
        name = argv[0]
        if name not in ("cd", "pushd", "popd"):
            return scope
        operands = [field for field in argv[1:] if not re.match(r"-[LPe@n]+\Z|--\Z", field)]
        if name == "popd" or len(operands) > 1 or (operands and operands[0] in ("-", "+1", "-0")):
            return scope.at((UNKNOWN,))
        if not operands:
            return scope.at((self._home or UNKNOWN,)) if name == "cd" else scope.at((UNKNOWN,))
        target = operands[0]
        return scope.moved(target) if is_known(target) else scope.at((UNKNOWN,))

    def _note(self, argv: Fields) -> None:
        self._texts.append(" ".join(source_text(field) for field in argv))
        for words in (argv, *_plain_spellings(argv)):
            known = tuple(word if is_known(word) else None for word in words)
            self._commands[SimpleCommand(known)] = None
            if words is not argv:
                self._texts.append(" ".join(source_text(field) for field in words))

    def _spawn(self, argv: Fields) -> None:
        if argv[0] in _BUILTINS or not argv[0]:
            return
        unknown = {f"args.{n}" for n, field in enumerate(argv[1:]) if not is_known(field)}
        shown = tuple(source_text(field) for field in argv)
        self._derive(partial(ProcessSpawn, shown[0], shown[1:]), unknown)

    def _write(self, path: str, op: str, scope: Scope) -> None:
        if path.startswith("~/"):
            path = f"{self._home}{path[1:]}" if self._home else UNKNOWN
        if not path or (is_known(path) and _NOWHERE.match(path)):
            return
        for cwd in scope.cwds:
            for place in self._places(join(cwd, path)):
                known = is_known(place)
                shown = place if known else source_text(path) or "?"
                self._derive(partial(FilesystemWrite, shown, Op(op)), set() if known else {"path"})

    def _places(self, path: str) -> list[str]:
        """The files that a path with a pattern means; the path itself when it has none."""
        bare = path.replace(GLOB, "")
        if bare == path or not is_known(bare):
            return [path]
        if self._expand is None:
            return [UNKNOWN]
        places: list[str] = []
        for place in self._expand(bare):
            places.append(place)
            if len(places) > MAX_MATCHES:
                return [UNKNOWN]
        # Without a match the pattern itself is the name; what is made meanwhile lies in its folder.
        return [*places, posixpath.normpath(bare)]

    def _request(self, request: bash_hosts.Request) -> None:
        unknown = {"host", "port", "scheme"} if not is_known(request.host) else set()
        if request.path is not None and not is_known(request.path):
            unknown.add("path")
        self._derive(
            partial(
                NetworkRequest,
                source_text(request.host) or "?",
                request.scheme,
                request.port,
                request.method if request.method and is_known(request.method) else None,
                source_text(request.path) if request.path else None,
            ),
            unknown,
        )

    def _derive(self, make: Callable[[], Action], unknown: set[str]) -> None:
        try:
            self._derived[Derived(make(), frozenset(unknown))] = None
        except MalformedAction as malformed:
            self.trouble(f"an action that no rule can judge: {malformed}")


def _plain_spellings(argv: Fields) -> tuple[Fields, ...]:
    """The same command as a rule would write it: ``rm -fr`` as ``rm -rf``, and so on."""
    name = family(argv[0])
    if name == "git":
        return bash_git.canonical(argv[1:])
    if name == "rm":
        given = split(argv[1:])
        given_names = {
            full
            for option, _ in given.options
            for full in ("--recursive", "--force", option)
            if full == option or (len(option) > 3 and full.startswith(option))
        }
        recursive = bool({"-r", "-R", "--recursive"} & given_names)
        force = bool({"-f", "--force"} & given_names)
        flags = "-" + "r" * recursive + "f" * force
        operands = tuple(
            posixpath.normpath("/" + one.lstrip("/"))
            if one.startswith("/") and is_known(one)
            else one
            for one in given.operands
        )
        return (("rm", *([flags] if flags != "-" else []), *operands),)
    return (((name_of(argv[0])), *argv[1:]),) if "/" in argv[0] else ()
