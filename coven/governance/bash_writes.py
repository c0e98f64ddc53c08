"""Which files a program writes, by its arguments. Pure; a table, not a promise of completeness.

Programs that are not listed write what they like: that is for the walls of the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from coven.governance.bash_peel import family, name_of
from coven.governance.bash_words import GLOB, SPLIT, Fields, is_known

CREATE, MODIFY, DELETE, RENAME, CHMOD, SYMLINK = (
    "create", "modify", "delete", "rename", "chmod", "symlink"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """A path, as written in the command (with marks), and what happens to it."""

    path: str
    op: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """Options and operands of a program."""

    operands: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...]

    def values(self, *names: str) -> list[str]:
        """The values of these options."""
        return [value for name, value in self.options if name in names and value is not None]

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)


def split(fields: Fields, valued: str = "", optional: str = "") -> Arguments:
    """Options with their values, and operands, in the manner of getopt_long(3).

    ``valued`` options take a value, ``optional`` ones only in the same field.
    """
    takes, may = frozenset(valued.split()), frozenset(optional.split())
    operands: list[str] = []
    options: list[tuple[str, str | None]] = []
    at, ended = 0, False
    while at < len(fields):
        field = fields[at]
        at += 1
        if ended or not field.startswith("-") or field == "-":
            operands.append(field)
        elif field == "--":
            ended = True
        elif field.startswith("--"):
            name, sign, value = field.partition("=")
            full = _completed(name, takes)
            if sign:
                options.append((full, value))
            elif full in takes and at < len(fields):
                options.append((full, fields[at]))
                at += 1
            else:
                options.append((full, None))
        else:
            letters = field[1:]
            while letters:
                name = "-" + letters[0]
                letters = letters[1:]
                if name in takes or name in may:
                    if letters:
                        options.append((name, letters))
                    elif name in takes and at < len(fields):
                        options.append((name, fields[at]))
                        at += 1
                    else:
                        options.append((name, None))
                    break
                options.append((name, None))
    return Arguments(tuple(operands), tuple(options))


def _completed(name: str, known: frozenset[str]) -> str:
    """GNU programs accept any unambiguous beginning of a long option."""
    if name in known:
        return name
    longer = [one for one in known if one.startswith(name) and len(name) > 3]
    return longer[0] if len(longer) == 1 else name


def writes(argv: Fields) -> list[Write]:
    """The files that ``argv`` writes."""
    if not argv or not is_known(argv[0]):
        return []
    reader = _TABLE.get(name_of(argv[0])) or _TABLE.get(family(argv[0]))
    return reader(argv[1:]) if reader is not None else []


Reader = Callable[[Fields], list[Write]]


def _each(op: str, valued: str = "", skip: int = 0, unless: str = "") -> Reader:
    """Every operand after the first ``skip`` is written."""

    def read(fields: Fields) -> list[Write]:
        given = split(fields, valued)
        first = 0 if unless and given.has(*unless.split()) else skip
        if SPLIT in given.operands[:first]:
            first = 0
        return [Write(path, op) for path in given.operands[first:]]

    return read


def _into(op: str, valued: str, *, leaves: bool = True) -> Reader:
    """``cp``-like: the last operand, or the folder of ``-t``, takes the others."""

    def read(fields: Fields) -> list[Write]:
        given = split(fields, valued + " -t --target-directory -S --suffix")
        folders = given.values("-t", "--target-directory")
        sources = list(given.operands)
        if not folders:
            if not sources:
                return []
            folders, sources = [sources[-1]], sources[:-1]
            if not sources:
                if op != SYMLINK:
                    return [Write(folders[0], op)]
                return [Write(_leaf(folders[0]), op)]
        found = [Write(folder, op) for folder in folders]
        if leaves:
            found += [
                Write(_under(folder, _leaf(source)), op)
                for folder in folders
                for source in sources[:64]
            ]
        if op == RENAME:
            found += [Write(source, RENAME) for source in sources]
        return found

    return read


def _leaf(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _under(folder: str, leaf: str) -> str:
    return f"{folder.rstrip('/') or '/'}/{leaf}".replace("//", "/")


def _install(fields: Fields) -> list[Write]:
    if split(fields, "-m -o -g -t -S").has("-d", "--directory"):
        return _each(CREATE, "-m -o -g --mode --owner --group")(fields)
    return _into(CREATE, "-m -o -g --mode --owner --group")(fields)


def _dd(fields: Fields) -> list[Write]:
    return [Write(field[3:], MODIFY) for field in fields if field.startswith("of=")]


def _sed(fields: Fields) -> list[Write]:
    given = split(fields, "-e -f -l --expression --file --line-length", "-i -E")
    files = given.operands if given.has("-e", "-f", "--expression", "--file") else (
        given.operands[1:]
    )  # fmt: skip
    if SPLIT in given.operands:
        files = given.operands
    found = []
    if given.has("-i", "--in-place"):
        found += [Write(path, MODIFY) for path in files]
    scripts = (*given.operands[:1], *given.values("-e", "--expression"))
    for script in scripts:
        for match in re.finditer(r"(?:^|[;\s}/0-9$!])[wW]\s+(\S+)", script):
            found.append(Write(match.group(1), MODIFY))
    return found


def _perl(fields: Fields) -> list[Write]:
    given = split(fields, "-e -E -I -M -m", "-i -l -0 -C -d -D -F -x")
    if not given.has("-i"):
        return []
    return [Write(path, MODIFY) for path in given.operands]


def _sort(fields: Fields) -> list[Write]:
    given = split(fields, "-o -k -t -S -T --output --key --field-separator")
    return [Write(path, MODIFY) for path in given.values("-o", "--output")]


def _tar(fields: Fields) -> list[Write]:
    if fields and not fields[0].startswith("-") and re.fullmatch(r"[A-Za-z]+", fields[0]):
        fields = ("-" + fields[0], *fields[1:])
    given = split(fields, "-f -C -T -X -b -K -N -V -I --file --directory --exclude --files-from")
    folders = given.values("-C", "--directory")
    if given.has("-x", "--extract", "--get"):
        absolute = given.has("-P", "--absolute-names")
        found = [Write(folder, CREATE) for folder in folders] or [Write(".", CREATE)]
        return [*found, Write(SPLIT, CREATE)] if absolute else found
    if given.has("-c", "-r", "-u", "-A", "--create", "--append", "--update"):
        return [Write(path, CREATE) for path in given.values("-f", "--file") if path != "-"]
    return []


def _unzip(fields: Fields) -> list[Write]:
    given = split(fields, "-d -x -P")
    if given.has("-l", "-t", "-p", "-v", "-Z"):
        return []
    return [Write(path, CREATE) for path in given.values("-d")] or [Write(".", CREATE)]


def _compress(fields: Fields) -> list[Write]:
    given = split(fields, "-S -p -b -T")
    if given.has("-c", "--stdout", "-t", "-l"):
        return []
    return [Write(path, RENAME) for path in given.operands]


def _curl(fields: Fields) -> list[Write]:
    given = split(fields, CURL_VALUED)
    folder = (given.values("--output-dir") or [""])[-1]
    found = [
        Write(_under(folder, path) if folder and not path.startswith("/") else path, CREATE)
        for path in given.values("-o", "--output")
        if path != "-"
    ]
    if given.has("-O", "--remote-name", "--remote-name-all", "-J"):
        found += [Write(_under(folder or ".", _leaf(url)), CREATE) for url in given.operands]
    return found + [
        Write(path, CREATE)
        for path in given.values("-D", "--dump-header", "-c", "--cookie-jar", "--trace",
                                 "--trace-ascii", "--stderr", "--hsts", "--alt-svc", "--libcurl")
        if path != "-"
    ]  # fmt: skip


CURL_VALUED = (
    "-o -D -c -b -d -F -H -A -e -u -U -x -X -T -m -K -w -r -C -E -y -Y -z -P -Q -t --output "
    "--output-dir --dump-header --cookie-jar --cookie --data --data-raw --data-binary "
    "--data-urlencode --json --form --header --user-agent --referer --user --proxy-user --proxy "
    "--request --upload-file --max-time --config --write-out --range --url --connect-to "
    "--resolve --interface --cert --key --cacert --capath --retry --connect-timeout --trace "
    "--trace-ascii --stderr --hsts --alt-svc --libcurl --doh-url --preproxy --socks5 "
    "--socks5-hostname --socks4 --socks4a --unix-socket --abstract-unix-socket --limit-rate "
    "--max-redirs --ciphers --retry-delay --retry-max-time --variable --form-string"
)
WGET_VALUED = (
    "-O -P -o -a -i -e -t -T -w -Q -U -l -A -R -D -I -X -B --output-document --directory-prefix "
    "--output-file --append-output --input-file --execute --tries --timeout --wait --quota "
    "--user-agent --level --header --post-data --post-file --method --body-data --body-file "
    "--user --password --save-cookies --load-cookies --base --warc-file --referer"
)


def _wget(fields: Fields) -> list[Write]:
    given = split(fields, WGET_VALUED)
    found = [
        Write(path, CREATE)
        for path in given.values("-O", "-o", "-a", "--output-document", "--output-file",
                                 "--append-output", "--save-cookies", "--warc-file")
        if path != "-"
    ]  # fmt: skip
    folders = given.values("-P", "--directory-prefix")
    found += [Write(folder, CREATE) for folder in folders]
    if not given.has("-O", "--output-document", "--spider"):
        folder = folders[-1] if folders else "."
        found += [Write(_under(folder, _leaf(url)), CREATE) for url in given.operands]
    return found


def _find(fields: Fields) -> list[Write]:
    roots: list[str] = []
    for field in fields:
        if field.startswith(("-", "(", "!")) and field not in ("-L", "-P", "-H"):
            break
        if not field.startswith("-"):
            roots.append(field)
    found = []
    if "-delete" in fields:
        for root in roots or ["."]:
            found += [Write(root, DELETE), Write(f"{root.rstrip('/')}/{GLOB}*", DELETE)]
    for at, field in enumerate(fields[:-1]):
        if field in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            found.append(Write(fields[at + 1], CREATE))
    return found


def _options(op: str, names: str) -> Reader:
    """The value of one of these options is written."""

    def read(fields: Fields) -> list[Write]:
        found = []
        for at, field in enumerate(fields):
            for name in names.split():
                if field == name and at + 1 < len(fields):
                    found.append(Write(fields[at + 1], op))
                elif field.startswith(name + "="):
                    found.append(Write(field[len(name) + 1 :], op))
                elif len(name) == 2 and field.startswith(name) and len(field) > 2:
                    found.append(Write(field[2:], op))
        return [one for one in found if one.path not in ("-", "/dev/stdout")]

    return read


def _last(op: str, valued: str = "", least: int = 1) -> Reader:
    """The last operand is written, when there are at least ``least``."""

    def read(fields: Fields) -> list[Write]:
        operands = split(fields, valued).operands
        return [Write(operands[-1], op)] if len(operands) >= least else []

    return read


def _patch(fields: Fields) -> list[Write]:
    given = split(fields, "-d -i -o -p -r -B -D -F -V -Y -z --directory --input --output")
    found = [Write(path, CREATE) for path in given.values("-o", "-r", "--output")]
    folders = given.values("-d", "--directory")
    return found + [Write(path, MODIFY) for path in (*folders, *given.operands[:1])]


def _local(valued: str) -> Reader:
    """``scp`` and ``rsync``: the last operand, when it is not on another machine."""

    def read(fields: Fields) -> list[Write]:
        found = _into(CREATE, valued)(fields)
        return [one for one in found if not re.match(r"[^/]*:", one.path)]

    return read


def _python(fields: Fields) -> list[Write]:
    if len(fields) > 1 and fields[0] == "-m":
        if fields[1] == "venv":
            return _each(CREATE, "--prompt")(fields[2:])
        if fields[1] == "pip":
            return _options(CREATE, "-t --target --prefix --root -d --dest")(fields[2:])
        if fields[1] == "zipfile" and "-e" in fields:
            return [Write(fields[-1], CREATE)]
        if fields[1] == "tarfile" and "-e" in fields:
            return [Write(fields[-1], CREATE)]
    return []


def _awk(fields: Fields) -> list[Write]:
    if "inplace" in fields:
        return [Write(path, MODIFY) for path in split(fields, "-i -v -F -f").operands[1:]]
    found = []
    for field in fields:
        found += [Write(path, CREATE) for path in re.findall(r'>{1,2}\s*"([^"]+)"', field) if path]
    return found


_TABLE: dict[str, Reader] = {
    "tee": _each(MODIFY),
    "sponge": _each(MODIFY),
    "touch": _each(CREATE, "-d -r -t --date --reference"),
    "mkdir": _each(CREATE, "-m --mode"),
    "mkfifo": _each(CREATE, "-m --mode"),
    "mknod": lambda fields: _each(CREATE, "-m --mode")(fields)[:1],
    "rm": _each(DELETE),
    "rmdir": _each(DELETE),
    "unlink": _each(DELETE),
    "shred": _each(DELETE, "-n -s --iterations --size"),
    "srm": _each(DELETE),
    "truncate": _each(MODIFY, "-s -r --size --reference"),
    "fallocate": _each(MODIFY, "-l -o --length --offset"),
    "chmod": _each(CHMOD, "--reference", 1, "--reference"),
    "chown": _each(CHMOD, "--reference --from", 1, "--reference"),
    "chgrp": _each(CHMOD, "--reference", 1, "--reference"),
    "chattr": _each(CHMOD, "", 1),
    "setfacl": _each(CHMOD, "-m -x -M -X", 0),
    "cp": _into(CREATE, ""),
    "gcp": _into(CREATE, ""),
    "mv": _into(RENAME, ""),
    "ln": _into(SYMLINK, ""),
    "link": _last(CREATE),
    "install": _install,
    "rsync": _local("-e --rsh --exclude --include --filter -f --files-from --log-file"),
    "scp": _local("-P -i -o -F -c -l -S -J"),
    "dd": _dd,
    "sed": _sed,
    "gsed": _sed,
    "perl": _perl,
    "ruby": _perl,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sort": _sort,
    "shuf": _sort,
    "uniq": _last(CREATE, "-f -s -w", 2),
    "tar": _tar,
    "bsdtar": _tar,
    "unzip": _unzip,
    "7z": _options(CREATE, "-o"),
    "zip": lambda fields: [Write(path, CREATE) for path in split(fields, "-i -x -b").operands[:1]],
    "cpio": lambda fields: [Write(".", CREATE)] if split(fields, "-D -F").has("-i", "-p") else [],
    "gzip": _compress,
    "gunzip": _compress,
    "bzip2": _compress,
    "bunzip2": _compress,
    "xz": _compress,
    "unxz": _compress,
    "zstd": _compress,
    "split": _last(CREATE, "-a -b -C -l -n --bytes --lines", 2),
    "csplit": _options(CREATE, "-f --prefix"),
    "curl": _curl,
    "wget": _wget,
    "aria2c": _options(CREATE, "-d -o --dir --out"),
    "find": _find,
    "patch": _patch,
    "mktemp": _options(CREATE, "-p --tmpdir"),
    "ed": _last(MODIFY),
    "ex": _last(MODIFY, "-c"),
    "vi": _last(MODIFY, "-c"),
    "vim": _last(MODIFY, "-c"),
    "python": _python,
    "pip": _options(CREATE, "-t --target --prefix --root -d --dest"),
    "npm": _options(CREATE, "--prefix"),
    "virtualenv": _each(CREATE, "-p --python --prompt"),
    "ssh-keygen": _options(CREATE, "-f"),
    "openssl": _options(CREATE, "-out -keyout"),
    "gcc": _options(CREATE, "-o"),
    "cc": _options(CREATE, "-o"),
    "g++": _options(CREATE, "-o"),
    "clang": _options(CREATE, "-o"),
    "rustc": _options(CREATE, "-o --out-dir"),
    "go": _options(CREATE, "-o"),
    "ld": _options(CREATE, "-o"),
    "pandoc": _options(CREATE, "-o --output"),
    "yq": lambda fields: (
        [Write(path, MODIFY) for path in split(fields).operands[1:]]
        if split(fields).has("-i", "--inplace")
        else []
    ),
    "script": _last(CREATE, "-c -E -I -o -O"),
    "sqlite3": lambda fields: [Write(path, MODIFY) for path in split(fields).operands[:1]],
    "objcopy": _last(CREATE, "-O -I", 2),
    "strip": _options(CREATE, "-o"),
    "xxd": _last(CREATE, "-s -l -c -g", 2),
    "iconv": _options(CREATE, "-o"),
    "mount": _last(MODIFY, "-t -o", 1),
    "umount": _last(MODIFY, "-t", 1),
    "mkfs": _last(MODIFY, "-t"),
    "mkswap": _last(MODIFY),
    "wipefs": _each(MODIFY, "-t -o"),
}
