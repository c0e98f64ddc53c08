"""Programs that start other programs: ``env``, ``timeout``, ``busybox``, ``sh -c`` and the like.

``unwrap`` peels them from an argument vector, so that a rule about ``cargo`` also sees
``env -i timeout 9 cargo``. Words may be ``None``: only the running shell knows them. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from coven.governance.matchers import Word

DEPTH = 4
"""How many wrappers may stand in each other before nothing is known any more."""

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"})

_LOADER = re.compile(r"ld-linux.*|ld-musl.*|ld(?:64)?\.so.*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """How a wrapper's own words end and the inner program's begin."""

    values: str = ""
    """Short options that take the next word."""

    long: frozenset[str] = frozenset()
    """Long options that take the next word."""

    skip: int = 0
    """How many words of its own stand before the program."""

    assigns: bool = False
    """Whether ``NAME=value`` words may stand before the program."""

    script: frozenset[str] = frozenset()
    """Options whose value is a shell command."""


def _long(*names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in names)


_PLAIN = _Wrapper()
_APPLET = _Wrapper()
_WRAPPERS: dict[str, _Wrapper] = {
    "env": _Wrapper("uCa", _long("unset", "chdir", "argv0"), assigns=True),
    "nice": _Wrapper("n", _long("adjustment")),
    "ionice": _Wrapper("cnpPu", _long("class", "classdata", "pid")),
    "chrt": _Wrapper("TPDp", _long("sched-runtime", "sched-period", "sched-deadline"), skip=1),
    "taskset": _Wrapper(skip=1),
    "timeout": _Wrapper("ks", _long("kill-after", "signal"), skip=1),
    "stdbuf": _Wrapper("ioe", _long("input", "output", "error")),
    "time": _Wrapper("fo", _long("format", "output")),
    "sudo": _Wrapper(
        "ughpCTrtUDRac",
        _long("user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "other-user"),
        assigns=True,
    ),
    "doas": _Wrapper("uCa"),
    "xargs": _Wrapper(
        "InPdaLsE",
        _long("max-args", "max-procs", "delimiter", "arg-file", "max-chars"),
    ),
    "watch": _Wrapper("n", _long("interval")),
    "exec": _Wrapper("a"),
    "flock": _Wrapper(
        "wEc", _long("wait", "timeout", "conflict-exit-code", "command"), skip=1,
        script=frozenset({"-c", "--command"}),
    ),
    "chroot": _Wrapper("", _long("userspec", "groups"), skip=1),
    "unshare": _Wrapper("SGR", _long("setuid", "setgid", "root", "wd", "map-user", "map-group")),
    "nsenter": _Wrapper("tSGrw", _long("target", "setuid", "setgid")),
    "strace": _Wrapper("eosuEpaIbPUX"),
    "ltrace": _Wrapper("eosupaFlnSx"),
    "faketime": _Wrapper("fm", skip=1),
    "parallel": _Wrapper("jaIN", _long("jobs", "arg-file")),
    "prlimit": _Wrapper("po"),
    "numactl": _Wrapper("ipCNmP"),
    "runuser": _Wrapper("ugGcs", _long("user", "group", "command", "shell"),
                        script=frozenset({"-c", "--command"})),
    "su": _Wrapper("gGcsw", _long("group", "command", "shell"),
                   script=frozenset({"-c", "--command"})),
    "script": _Wrapper("cOIBTEmo", _long("command", "log-out"),
                       script=frozenset({"-c", "--command"})),
    "systemd-run": _Wrapper("pMHuE", _long("property", "unit", "uid", "gid", "setenv", "slice")),
    "busybox": _APPLET,
    "toybox": _APPLET,
    **dict.fromkeys(
        ("nohup", "setsid", "command", "builtin", "setarch", "linux32", "linux64", "unbuffer",
         "rlwrap", "setpriv", "catchsegv", "valgrind", "fakeroot", "proxychains", "coproc",
         "dbus-run-session"),
        _PLAIN,
    ),
}  # fmt: skip


@dataclass(slots=True)
class Unwrapped:
    """What an argument vector runs in the end."""

    commands: list[tuple[Word, ...]] = field(default_factory=list)
    """The given vector first, then every program inside it."""

    scripts: list[Word] = field(default_factory=list)
    """Texts that a shell runs; ``None`` when the text is not known."""

    too_deep: bool = False


def unwrap(argv: Sequence[Word]) -> Unwrapped:
    """Peel wrappers until none is left, or ``DEPTH`` is reached."""
    found = Unwrapped()
    pending = [(tuple(argv), 0)]
    while pending:
        words, depth = pending.pop(0)
        found.commands.append(words)
        inner = list(_inner(words, found.scripts))
        if inner and depth >= DEPTH:
            found.too_deep = True
            continue
        pending += [(words, depth + 1) for words in inner if words]
    return found


def basename(word: str) -> str:
    """The last part of a path, trailing slashes aside."""
    return word.rstrip("/").rpartition("/")[2]


def _inner(argv: tuple[Word, ...], scripts: list[Word]) -> Iterator[tuple[Word, ...]]:
    if not argv or argv[0] is None:
        return
    name = basename(argv[0])
    rest = argv[1:]
    if name in SHELLS:
        scripts.extend(_shell_script(rest))
    elif name == "find":
        yield from _find(rest)
    elif name == "env" and (split := _split_string(rest)) is not None:
        yield split
    elif _LOADER.fullmatch(name):
        yield _skip(rest, _Wrapper("", _long("library-path", "preload", "audit", "argv0")), scripts)
    elif name in _WRAPPERS:
        yield _skip(rest, _WRAPPERS[name], scripts)


def _skip(rest: tuple[Word, ...], wrapper: _Wrapper, scripts: list[Word]) -> tuple[Word, ...]:
    place = 0
    while place < len(rest):
        word = rest[place]
        if word is None:
            break
        if word == "--":
            place += 1
            break
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            takes = option in wrapper.long
            if option in wrapper.script:
                scripts.append(value if equals else _at(rest, place + 1))
            place += 2 if takes and not equals else 1
        elif word.startswith("-") and len(word) > 1:
            place += _short(word, rest, place, wrapper, scripts)
        elif wrapper.assigns and _ASSIGNMENT.match(word):
            place += 1
        else:
            break
    rest = rest[place + wrapper.skip :]
    while wrapper.assigns and rest and rest[0] and _ASSIGNMENT.match(rest[0]):
        rest = rest[1:]
    if wrapper.skip and rest[:1] and (rest[0] or "") in wrapper.script:
        scripts.append(_at(rest, 1))  # flock FILE -c COMMAND
        return ()
    return rest


def _short(
    word: str, rest: tuple[Word, ...], place: int, wrapper: _Wrapper, scripts: list[Word]
) -> int:
    for n, letter in enumerate(word[1:], start=1):
        if letter in wrapper.values:
            attached = word[n + 1 :]
            if f"-{letter}" in wrapper.script:
                scripts.append(attached or _at(rest, place + 1))
            return 1 if attached else 2
    return 1


def _shell_script(rest: tuple[Word, ...]) -> Iterator[Word]:
    """The command of ``sh -c``, also ``-ec`` and ``-o pipefail -c``."""
    place, wanted = 0, False
    while place < len(rest):
        word = rest[place]
        if word is None:
            if not wanted:
                yield None  # it may be -c
            break
        if word == "--" or not word.startswith(("-", "+")) or word == "-":
            break
        if not word.startswith("--"):
            wanted = wanted or ("c" in word[1:] and word[0] == "-")
            if word[1:].endswith(("o", "O")):
                place += 1
        elif word in ("--rcfile", "--init-file"):
            place += 1
        elif word.startswith("--command"):
            wanted = True
        place += 1
    if wanted:
        if place < len(rest) and rest[place] in ("--", "-"):
            place += 1
        yield _at(rest, place)


def _find(rest: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    place = 0
    while place < len(rest):
        if rest[place] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = place + 1
            while end < len(rest) and rest[end] not in (";", "+"):
                end += 1
            yield tuple(rest[place + 1 : end])
            place = end
        place += 1


def _split_string(rest: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """``env -S 'cargo build'`` is ``env cargo build``."""
    for place, word in enumerate(rest):
        if word is None or not word.startswith("-"):
            return None
        attached = None
        if word.startswith(("--split-string=", "-S")) or re.match(r"-[iv0]+S", word):
            attached = re.sub(r"\A(?:--split-string=|-[iv0]*S)", "", word)
            after = rest[place + 1 :]
        if word == "--split-string" or attached == "":
            attached, after = _at(rest, place + 1), rest[place + 2 :]
            if attached is None:
                return (None, *after)
        if attached is not None:
            try:
                return ("env", *shlex.split(attached), *after)
            except ValueError:
                return (None, *after)
    return None


def _at(words: Sequence[Word], place: int) -> Word:
    return words[place] if place < len(words) else None
