"""Programs that run others in a way of their own: ``find``, ``git``, ``ssh``, ``eval``. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from coven.governance.bash_inner import Inner, after_options, option_values
from coven.governance.bash_words import GLOB, SPLIT, UNKNOWN, Fields, is_known, names


def _eval(argv: Fields, _stdin: str) -> list[Inner]:
    code = " ".join(argv[1:])
    return [Inner(code=code, same_shell=True)] if code else []


def _source(argv: Fields, stdin: str) -> list[Inner]:
    if len(argv) < 2:
        return []
    if not is_known(argv[1]) or re.match(r"/dev/|/proc/", argv[1]):
        if argv[1] == "/dev/stdin" and stdin and is_known(stdin):
            return [Inner(code=stdin, same_shell=True)]
        return [Inner(trouble="sources a file that is known at run time only")]
    return [Inner(opaque="a script file")]


def _trap(argv: Fields, _stdin: str) -> list[Inner]:
    rest = [field for field in argv[1:] if field not in ("--", "-p", "-l", "-P")]
    return [Inner(code=rest[0], same_shell=True)] if len(rest) > 1 and rest[0] != "-" else []


def _alias(argv: Fields, _stdin: str) -> list[Inner]:
    found = []
    for field in argv[1:]:
        name, sign, code = field.partition("=")
        if sign:
            found.append(Inner(code=code))
            found.append(Inner(trouble=f"an alias named {name[:40]}"))
    return found


def _filled(fields: Fields, place: str) -> Iterable[str]:
    for field in fields:
        yield place if field == "{}" else UNKNOWN if "{}" in field else field


def _find(argv: Fields, _stdin: str) -> list[Inner]:
    roots = []
    for field in argv[1:]:
        if field.startswith(("-", "(", "!")) and field not in ("-L", "-P", "-H"):
            break
        roots.append(field)
    found, at = [], 1
    while at < len(argv):
        if argv[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at, len(argv)) if argv[n] in (";", "+")), len(argv))
            for root in roots or ["."]:
                below = root.rstrip("/") + f"/{GLOB}*" if is_known(root) else UNKNOWN
                for place in (root, below):  # the folder itself is found as well
                    found.append(Inner(argv=tuple(_filled(argv[at + 1 : end], place))))
            at = end
        at += 1
    return found


def _joined(skip: int, valued: str, label: str) -> Callable[[Fields, str], list[Inner]]:
    """Programs that hand the rest of their arguments to a shell as one text."""

    def inner(argv: Fields, _stdin: str) -> list[Inner]:
        rest, _ = after_options(argv[1:], names(valued), label)
        text = " ".join(rest[skip:])
        return [Inner(code=text)] if text else []

    return inner


def _ssh(argv: Fields, _stdin: str) -> list[Inner]:
    found = [
        Inner(code=field.partition("=")[2])
        for field in _options(argv, "-o")
        if field.lower().startswith(("proxycommand", "localcommand", "knownhostscommand"))
    ]
    rest, _ = after_options(
        argv[1:], names("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"),
        "ssh",
    )  # fmt: skip
    if len(rest) > 1:
        found.append(Inner(opaque="a command on another machine"))
        found.append(Inner(code=" ".join(rest[1:])))
    return found


def _options(argv: Iterable[str], option: str) -> list[str]:
    fields = list(argv)
    found = [fields[at + 1] for at, field in enumerate(fields[:-1]) if field == option]
    return found + [
        field[len(option) :].lstrip("=")
        for field in fields
        if field.startswith(option) and field != option
    ]


def _su(argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(code=code) for code in option_values(argv, "-c", "--command")]


def _git(argv: Fields, _stdin: str) -> list[Inner]:
    found = []
    for setting in (*_options(argv, "-c"), *_options(argv, "--config-env")):
        key, _, value = setting.partition("=")
        if re.match(r"alias\.", key, re.IGNORECASE):
            code = value[1:] if value.startswith("!") else f"git {value}"
            found.append(Inner(code=code))
            found.append(Inner(trouble="a git alias on the command line"))
        elif key.lower().endswith(_GIT_PROGRAMS):
            found.append(Inner(code=value))
        elif re.match(r"remote\..*\.push\Z", key, re.IGNORECASE):
            found.append(Inner(argv=("git", "push", "origin", value)))
        elif re.match(r"remote\..*\.mirror\Z", key, re.IGNORECASE):
            found.append(Inner(argv=("git", "push", "--mirror")))
        elif re.match(r"core\.hookspath|include", key, re.IGNORECASE) and value != "/dev/null":
            found.append(Inner(opaque="git hooks or settings of another place"))
    if "grep" in argv:
        found += [Inner(code=code) for code in _options(argv, "-O")]
    for option in (
        "--open-files-in-pager",
        "--exec",
        "-x",
        "--upload-pack",
        "--receive-pack",
        "--extcmd",
    ):
        if option != "-x" or {"rebase", "difftool"} & set(argv):
            found += [Inner(code=code) for code in _options(argv, option)]
    for at, field in enumerate(argv):
        if field.endswith("-filter") and "filter-branch" in argv and at + 1 < len(argv):
            found.append(Inner(code=argv[at + 1]))
        if (field == "foreach" and "submodule" in argv) or (field == "run" and "bisect" in argv):
            rest = tuple(one for one in argv[at + 1 :] if one not in ("--recursive", "--quiet"))
            found.append(Inner(code=" ".join(rest)) if len(rest) == 1 else Inner(argv=rest))
    return found


_GIT_PROGRAMS = (
    "core.sshcommand", "core.pager", "core.editor", "core.fsmonitor", "core.askpass",
    "core.gitproxy", "credential.helper", "diff.external", "sequence.editor", "gpg.program",
    ".textconv", ".command", ".cmd", ".clean", ".smudge", ".process", ".driver", ".program",
    "uploadpack.packobjectshook", "pager.log", "pager.diff", "pager.show",
)  # fmt: skip


def _tar(argv: Fields, _stdin: str) -> list[Inner]:
    found = []
    for option in ("--to-command", "--use-compress-program", "--info-script", "--new-volume-script",
                   "--rsh-command", "-I", "-F"):  # fmt: skip
        found += [Inner(code=code) for code in _options(argv, option)]
    for action in _options(argv, "--checkpoint-action"):
        if action.startswith("exec="):
            found.append(Inner(code=action[5:]))
    return found


def _make(argv: Fields, stdin: str) -> list[Inner]:
    found = []
    for field in argv[1:]:
        name, sign, value = field.partition("=")
        if sign and name.rstrip(":?+") in ("SHELL", ".SHELLFLAGS"):
            found.append(Inner(argv=tuple(value.split()) or (UNKNOWN,)))
            found.append(Inner(trouble="make with another shell"))
    evals = [*_options(argv, "--eval"), *_options(argv, "-E")]
    found += [Inner(opaque="a makefile on the command line") for _ in evals]
    if stdin and ("-f-" in argv or "-" in argv or "/dev/stdin" in argv):
        found.append(Inner(opaque="a makefile from standard input"))
    return found


def _parallel(argv: Fields, _stdin: str) -> list[Inner]:
    fields = list(argv[1:])
    cut = next((n for n, field in enumerate(fields) if field.startswith(":::")), None)
    values = fields[cut + 1 :] if cut is not None else []
    command = fields[:cut]
    rest, _ = after_options(
        tuple(command), names("-j -a -I -n -N -d --jobs --colsep --delay"), "parallel"
    )
    if not rest:
        found = [Inner(code=value) for value in values]
        return found or [Inner(trouble="parallel runs lines of its input")]
    text = " ".join(rest)
    if not values:
        return [Inner(code=f"{text} $_")]
    return [
        Inner(code=text.replace("{}", value) if "{}" in text else f"{text} {value}")
        for value in values[:32]
    ]


def _rsync(argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(code=code) for code in (*_options(argv, "-e"), *_options(argv, "--rsh"))]


def _at(_argv: Fields, stdin: str) -> list[Inner]:
    found = [Inner(opaque="work for later")]
    if stdin:
        found.append(Inner(code=stdin) if is_known(stdin) else Inner(trouble="work for later"))
    return found


def _sed(argv: Fields, _stdin: str) -> list[Inner]:
    text = " ".join(argv[1:])
    runs = re.search(r"(?:^|[;\s}/0-9$!])e\s+\S|(/|\||#|,)[gpimI0-9]*e[gpimw]*(?:\s|;|$)", text)
    return [Inner(opaque="code of sed")] if runs else []


def _container(argv: Fields, _stdin: str) -> list[Inner]:
    if {"run", "exec", "build", "start", "compose"} & set(argv[1:6]):
        return [Inner(opaque="a command in a container")]
    return []


def _hash(argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(trouble="another program under this name")] if "-p" in argv else []


def _enable(argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(opaque="a builtin from a file")] if "-f" in argv else []


def _mapfile(argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(code=f"{code} 0 $_") for code in option_values(argv, "-C")]


def _capsh(argv: Fields, _stdin: str) -> list[Inner]:
    cut = next((n for n, field in enumerate(argv) if field in ("--", "==")), None)
    if cut is None:
        return []
    return [Inner(argv=("bash", *argv[cut + 1 :]))]


def _sg(argv: Fields, _stdin: str) -> list[Inner]:
    words = [field for field in argv[2:] if field != "-c"]
    return [Inner(code=" ".join(words))] if words else []


def _hyperfine(argv: Fields, _stdin: str) -> list[Inner]:
    valued = "-w -m -M -r -s -p -c -S -n -i --warmup --min-runs --max-runs --runs --export-json"
    rest, _ = after_options(argv[1:], names(valued), "hyperfine")
    given = option_values(argv, "-p", "--prepare", "-s", "--setup", "-c", "--cleanup")
    return [Inner(code=code) for code in (*rest, *given)]


def _multiplexer(argv: Fields, _stdin: str) -> list[Inner]:
    """``screen`` and ``tmux``: what stands behind their options runs, in one word or in several."""
    rest, _ = after_options(argv[1:], names("-S -c -e -h -s -t -T -p -L -f -n -x -y -F"), argv[0])
    while rest and re.match(r"new|split|respawn|run|send|if-shell|display-popup|popup", rest[0]):
        rest, _ = after_options(rest[1:], names("-c -e -F -n -s -t -x -y -l"), argv[0])
    if len(rest) == 1:
        return [Inner(code=rest[0])]
    return [Inner(argv=rest)] if rest else []


def _nix(argv: Fields, _stdin: str) -> list[Inner]:
    found = [Inner(code=code) for code in option_values(argv, "--run", "--command")]
    for flag in ("-c", "--command"):
        if argv[0].endswith("nix") and flag in argv:
            found.append(Inner(argv=argv[argv.index(flag) + 1 :]))
    return [*found, Inner(opaque="a shell of nix")]


def _folder_of_scripts(_argv: Fields, _stdin: str) -> list[Inner]:
    return [Inner(opaque="script files of a folder")]


SPECIAL: dict[str, Callable[[Fields, str], list[Inner]]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "find": _find,
    "fd": lambda argv, _stdin: [
        Inner(argv=(*argv[argv.index(flag) + 1 :], SPLIT))
        for flag in ("-x", "-X", "--exec", "--exec-batch")
        if flag in argv
    ],
    "watch": _joined(0, "-n -q --interval", "watch"),
    "ssh": _ssh,
    "su": _su,
    "git": _git,
    "tar": _tar,
    "make": _make,
    "gmake": _make,
    "parallel": _parallel,
    "script": _su,
    "rsync": _rsync,
    "at": _at,
    "batch": _at,
    "crontab": _at,
    "sed": _sed,
    "gsed": _sed,
    "docker": _container,
    "podman": _container,
    "hash": _hash,
    "enable": _enable,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "capsh": _capsh,
    "sg": _sg,
    "hyperfine": _hyperfine,
    "screen": _multiplexer,
    "tmux": _multiplexer,
    "nix-shell": _nix,
    "nix": _nix,
    "run-parts": _folder_of_scripts,
}
