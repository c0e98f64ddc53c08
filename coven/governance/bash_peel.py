"""What is inside a command that runs another one: ``sudo``, ``sh -c``, ``find -exec``. Pure."""

from __future__ import annotations

import re

from coven.governance.bash_inner import Inner, after_options, option_values
from coven.governance.bash_programs import SPECIAL
from coven.governance.bash_words import SPLIT, UNKNOWN, Fields, is_known, names

SHELLS = names("sh bash zsh dash ksh ksh93 mksh ash rbash fish hush csh tcsh")

INTERPRETERS = {
    "python": "-c", "perl": "-e -E", "ruby": "-e", "node": "-e -p --eval --print", "php": "-r",
    "lua": "-e", "deno": "eval", "bun": "-e", "Rscript": "-e", "osascript": "-e", "tclsh": "",
    "nodejs": "-e -p", "ts-node": "-e -p --eval --print",
    "tsx": "-e -p --eval --print", "pypy": "-c", "awk": "", "gawk": "", "mawk": "", "jq": "",
    "ed": "",
    "ex": "-c", "vi": "-c", "vim": "-c", "nvim": "-c", "emacs": "--eval", "gdb": "-ex",
    "psql": "-c", "sqlite3": "", "expect": "-c", "ghci": "-e", "julia": "-e", "elixir": "-e",
}  # fmt: skip

_STDIN_PROGRAMS = names("python perl ruby node php lua deno bun tclsh nodejs pypy ed")

# wrapper: (options with a value, operands before the inner command)
_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot "
             "--close-from --role --type --other-user --command-timeout", 0),
    "doas": ("-u -C", 0),
    "env": ("-u -C --unset --chdir --argv0 -a", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "chrt": ("-T -P -D", 1),
    "taskset": ("", 1),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "time": ("-f -o --format --output", 0),
    "timeout": ("-k -s --kill-after --signal", 1),
    "gtimeout": ("-k -s --kill-after --signal", 1),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "coproc": ("", 0),
    "xargs": ("-a -d -E -I -L -n -P -s --arg-file --delimiter --eof --replace --max-lines "
              "--max-args --max-procs --max-chars --process-slot-var", 0),
    "ld.so": ("--library-path --preload --audit --argv0 --inhibit-rpath", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "strace": ("-e -o -p -s -S -u -E -a -I -O -P -X", 0),
    "ltrace": ("-e -o -p -s -u", 0),
    "catchsegv": ("", 0),
    "unbuffer": ("", 0),
    "eatmydata": ("", 0),
    "fakeroot": ("-l -s -i -b", 0),
    "setarch": ("", 0),
    "linux64": ("", 0),
    "prlimit": ("", 0),
    "chpst": ("-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -r -t", 0),
    "softlimit": ("-m -d -s -l -a -o -p -f -c -r -t", 0),
    "runuser": ("-u -g -G --user --group", 0),
    "setpriv": ("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set", 0),
    "flock": ("-w -E --timeout --conflict-exit-code", 1),
    "unshare": ("-S -G -R -w --setuid --setgid --root --wd", 0),
    "nsenter": ("-t -S -G --target --setuid --setgid", 0),
    "systemd-run": ("-p -u -M -H -E --property --unit --setenv --uid --gid", 0),
    "xvfb-run": ("-n -e -f -p -s -w", 0),
    "firejail": ("", 0),
    "bwrap": ("", 0),
    "proot": ("-r -b -w -R -S", 0),
    "valgrind": ("", 0), "numactl": ("-N -m -C -P -i -p -l --cpunodebind --membind", 0),
    "choom": ("-n -p --adjust", 0), "faketime": ("", 1), "torsocks": ("", 0), "torify": ("", 0),
    "proxychains": ("-f", 0), "proxychains4": ("-f", 0), "tsocks": ("", 0), "cgexec": ("-g", 0),
    "ssh-agent": ("-a -E -P -t", 0), "dbus-run-session": ("--config-file --dbus-daemon", 0),
    "dbus-launch": ("", 0), "daemonize": ("-a -c -e -E -l -o -p -u", 0),
    "dtach": ("-n -N -a -A -c -p -e -r", 0),
    "uclampset": ("-m -M -p", 0), "perf": ("-e -o -p -F -C -I -r", 1), "rlwrap": ("", 0),
    "mise": ("", 1), "asdf": ("", 2), "conda": ("-n -p --name --prefix", 1),
    "mamba": ("-n -p --name --prefix", 1), "rustup": ("", 2), "pnpm": ("", 1), "yarn": ("", 1),
    "npm": ("", 1), "start-stop-daemon": ("", 0),
    "uv": ("", 1), "poetry": ("", 1), "pipenv": ("", 1), "hatch": ("", 1), "rye": ("", 1),
    "pdm": ("", 1), "npx": ("-p --package", 0), "bundle": ("", 1), "direnv": ("", 2),
    "entr": ("", 0), "pkexec": ("--user", 0), "caffeinate": ("-t -w", 0),
    "chroot": ("--userspec --groups", 1), "unlimited": ("", 0), "noglob": ("", 0),
    "nocorrect": ("", 0), "-": ("", 0), "dotenv": ("-f -e", 0), "cross-env": ("", 0),
}  # fmt: skip
_RUN_WORD = {
    "uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "rye": "run", "pdm": "run",
    "bundle": "exec", "direnv": "exec", "mise": "exec", "asdf": "exec", "conda": "run",
    "mamba": "run", "rustup": "run", "pnpm": "exec", "yarn": "exec", "npm": "exec",
}  # fmt: skip
_MACHINE = re.compile(r"(?:x86_|i[3-6]86|linux|aarch|arm|ppc|s390|sparc|mips|riscv|uname)\w*")
_LOADER = re.compile(r"ld-linux.*|ld-musl.*|ld(?:64)?\.so.*")
_BWRAP = {
    **dict.fromkeys(names(
        "--args --argv0 --uid --gid --hostname --chdir --unsetenv --lock-file --sync-fd --info-fd "
        "--json-status-fd --block-fd --userns-block-fd --userns --userns2 --pidns --exec-label "
        "--file-label --proc --dev --tmpfs --mqueue --dir --remount-ro --seccomp --cap-add "
        "--add-seccomp-fd --cap-drop --perms --size --overlay-src --tmp-overlay --ro-overlay"), 1),
    **dict.fromkeys(names(
        "--setenv --bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --bind-fd "
        "--ro-bind-fd --file --bind-data --ro-bind-data --symlink --chmod"), 2),
    "--overlay": 3,
}  # fmt: skip
"""Options of ``bwrap``, version 0.11, that take words, and how many."""
_ASSIGN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def name_of(field: str) -> str:
    """The program a command word names: its last part, without a version number."""
    return field.rpartition("/")[2]


def family(field: str) -> str:
    """``python3.11`` is ``python``."""
    name = name_of(field)
    match = re.match(r"(python|pypy|perl|ruby|lua|php|node|tclsh)[0-9.]*\Z", name)
    return match.group(1) if match else name


def peel(argv: Fields, stdin: str) -> list[Inner]:
    """What ``argv`` runs further. ``stdin`` is what it reads, with marks; empty for nothing."""
    if not argv or not is_known(argv[0]):
        return []
    name = name_of(argv[0])
    if name.startswith("git-") and len(name) > 4:  # its own file, as git starts it
        return [Inner(argv=("git", name[4:], *argv[1:]))]
    special = SPECIAL.get(name)
    if special is not None:
        return special(argv, stdin)
    if name == "env":
        return _env(argv)
    if name in SHELLS:
        return _shell(argv, stdin)
    if family(argv[0]) in INTERPRETERS:
        return _interpreter(argv, stdin)
    if _LOADER.fullmatch(name):
        return _wrapper("ld.so", argv)
    if name in _WRAPPERS:
        return _wrapper(name, argv)
    return []


def _wrapper(name: str, argv: Fields) -> list[Inner]:
    valued, operands = _WRAPPERS[name]
    word = _RUN_WORD.get(name)
    if word is not None:
        if word not in argv[1:4]:
            return []
        argv, operands = argv[argv.index(word) :], int(name in ("direnv", "rustup"))
    found: list[Inner] = []
    rest, moved = after_options(argv[1:], names(valued), name)
    rest = rest[operands:]
    if name == "bwrap":
        if "--args" in argv:
            return [Inner(trouble="bwrap reads options that are not shown")]
        rest = _after_walls(argv[1:])
    if name == "setarch" and rest and _MACHINE.fullmatch(rest[0]):
        rest, _ = after_options(rest[1:], names(valued), name)
    if name in ("env", "sudo", "doas", "exec", "cross-env", "dotenv"):
        while rest and _ASSIGN.match(rest[0]):
            found += environment(*rest[0].split("=", 1))
            rest = rest[1:]
    if name == "xargs" and rest:
        rest = (*rest, SPLIT)
        replaced = _option_value(argv, "-I") or "{}"
        rest = tuple(UNKNOWN if replaced in field else field for field in rest)
    if name in ("npx", "npm") and (calls := option_values(argv, "-c", "--call")):
        return [Inner(code=code) for code in calls]
    if name == "start-stop-daemon":
        starts = [
            argv[at + 1]
            for at, field in enumerate(argv[:-1])
            if field in ("-x", "--exec", "-a", "--startas")
        ]
        after = argv[argv.index("--") + 1 :] if "--" in argv else ()
        return [Inner(argv=(program, *after)) for program in starts]
    if name == "flock" and "-c" in argv:
        return [Inner(code=argv[argv.index("-c") + 1])] if argv[-1] != "-c" else []
    if name in ("command",) and any(option in argv[1:2] for option in ("-v", "-V")):
        return found
    if name == "chroot" or (name in ("unshare", "bwrap", "proot", "nsenter") and rest):
        found.append(Inner(opaque=f"{name} runs a command in another root"))
    if name == "coproc" and "{" in rest:
        return [Inner(trouble="a coprocess of several commands")]
    if rest:
        found.append(
            Inner(argv=rest, moved=moved, same_shell=name in ("command", "builtin", "exec"))
        )
    return found


def _after_walls(fields: Fields) -> Fields:
    """The command of ``bwrap``."""
    at = 0
    while at < len(fields) and fields[at].startswith("--") and fields[at] != "--":
        at += 1 + _BWRAP.get(fields[at], 0)
    return fields[at + 1 :] if fields[at : at + 1] == ("--",) else fields[at:]


def _option_value(argv: Fields, option: str) -> str | None:
    for at, field in enumerate(argv):
        if field == option and at + 1 < len(argv):
            return argv[at + 1]
        if field.startswith(option) and len(field) > len(option):
            return field[len(option) :].lstrip("=")
    return None


def _env(argv: Fields) -> list[Inner]:
    for at, field in enumerate(argv[1:], 1):
        for option in ("-S", "--split-string=", "--split-string", "-vS", "-iS"):
            if field.startswith(option):
                given = field[len(option) :] or (argv[at + 1] if at + 1 < len(argv) else "")
                after = argv[at + 1 :] if field[len(option) :] else argv[at + 2 :]
                text = " ".join((given, *after))
                return [Inner(code=text)] if is_known(text) else [Inner(trouble="env -S")]
        if not field.startswith("-"):
            break
    return _wrapper("env", argv)


def _shell(argv: Fields, stdin: str) -> list[Inner]:
    at, code_wanted, reads = 1, False, True
    while at < len(argv):
        field = argv[at]
        if field in ("-", "--"):
            at += 1
            break
        if field[:1] not in ("-", "+") or len(field) < 2:
            break
        if field == SPLIT or not is_known(field):
            return [Inner(trouble="options of a shell that are known at run time only")]
        if field.startswith("--"):
            if field in ("--rcfile", "--init-file"):
                at += 1
            at += 1
            continue
        code_wanted = code_wanted or "c" in field[1:]
        at += 1 + sum(field[1:].count(letter) for letter in "oO")
    rest = argv[at:]
    if code_wanted:
        if not rest:
            return [Inner(trouble="a shell without its code")]
        return [Inner(code=rest[0])]
    if rest and not any("s" in field[1:] for field in argv[1:at] if field[1:2] != "-"):
        if rest[0] == SPLIT or not is_known(rest[0]):
            return [Inner(trouble="a script that is known at run time only")]
        reads = bool(re.match(r"/dev/(fd/|stdin)|/proc/[^/]+/fd/", rest[0]))
        if not reads:
            return [Inner(opaque=f"a script file of {name_of(argv[0])}")]
        if rest[0] == "/dev/fd/63":
            return [Inner(trouble="a shell reads code that is made at run time")]
    if not stdin:
        return []
    if not is_known(stdin):
        return [
            Inner(trouble="a shell reads code that is made at run time"),
            Inner(opaque="code piped into a shell"),
        ]
    return [Inner(code=stdin)]


def _interpreter(argv: Fields, stdin: str) -> list[Inner]:
    name = family(argv[0])
    flags = INTERPRETERS[name].split()
    shown = f"code of {name}"
    for field in argv[1:]:
        if field in flags or any(
            len(flag) == 2 and re.match(rf"-[A-Za-z0-9]*{flag[1]}", field) for flag in flags
        ):
            return [Inner(opaque=shown)]
    if name in ("awk", "gawk", "mawk"):
        text = " ".join(argv[1:])
        risky = re.search(r"system|getline|\||>|-f\b|inplace", text) or not is_known(text)
        return [Inner(opaque=shown)] if risky else []
    if name in _STDIN_PROGRAMS:
        operands = [field for field in argv[1:] if not field.startswith("-") or field == "-"]
        if stdin and (not operands or operands[0] in ("-", "/dev/stdin")):
            return [Inner(opaque=f"{shown} from standard input")]
        if operands and operands[0].startswith("/dev/fd/"):
            return [Inner(opaque=shown)]
    return []


_PROGRAMS = names(
    "GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS "
    "GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND PAGER EDITOR VISUAL RSYNC_RSH LESSOPEN MANPAGER"
)
"""Variables that hold a command."""

_SERVERS = re.compile(
    r"(?:\w+_)?(?:(?:https?|ftp|all|socks|rsync)_proxy|index_url|registry|find_links)"
    r"|goproxy|gh_host",
    re.IGNORECASE,
)
"""Variables that name the server a program goes to."""


def environment(name: str, value: str) -> list[Inner]:
    """What a variable makes programs run."""
    if name in ("BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH"):
        return [Inner(trouble=f"{name} makes shells do more than is shown")]
    if name.startswith("BASH_FUNC_"):
        return [Inner(trouble="a function from the environment")]
    if name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONSTARTUP", "PYTHONPATH",
                "NODE_OPTIONS", "PERL5OPT", "PERL5LIB", "RUBYOPT", "PATH"):  # fmt: skip
        return [Inner(opaque=f"{name} decides which code runs")]
    if name in _PROGRAMS:
        return [Inner(code=value)] if value else []
    if name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        return [Inner(trouble=f"{name} makes git work elsewhere")]
    if _SERVERS.fullmatch(name) and is_known(value):
        return [
            Inner(url=server)
            for server in re.split(r"[,|\s]+", value)
            if "://" in server or (server and name.upper() == "GH_HOST")
        ]
    if name.startswith("GIT_CONFIG"):
        return [Inner(opaque="git settings from the environment")]
    return []
