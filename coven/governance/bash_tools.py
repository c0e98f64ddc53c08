"""Programs whose arguments name files in a way of their own: sed, tar, curl and the like. Pure."""

from __future__ import annotations

import re

from coven.governance.bash_options import split
from coven.governance.bash_shapes import (
    CREATE,
    DELETE,
    MODIFY,
    RENAME,
    Write,
    each,
    into,
    leaf,
    options,
    under,
)
from coven.governance.bash_words import GLOB, SPLIT, Fields


def install(fields: Fields) -> list[Write]:
    if split(fields, "-m -o -g -t -S").has("-d", "--directory"):
        return each(CREATE, "-m -o -g --mode --owner --group")(fields)
    return into(CREATE, "-m -o -g --mode --owner --group")(fields)


def dd(fields: Fields) -> list[Write]:
    return [Write(field[3:], MODIFY) for field in fields if field.startswith("of=")]


def sed(fields: Fields) -> list[Write]:
    given = split(fields, "-e -f -l --expression --file --line-length", "-i")
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


def perl(fields: Fields) -> list[Write]:
    given = split(fields, "-e -E -I -M -m", "-i -l -0 -C -d -D -F -x")
    if not given.has("-i"):
        return []
    return [Write(path, MODIFY) for path in given.operands]


def sort(fields: Fields) -> list[Write]:
    given = split(fields, "-o -k -t -S -T --output --key --field-separator")
    return [Write(path, MODIFY) for path in given.values("-o", "--output")]


_TAR = "-f -C -T -X -b -K -N -V -I -g -F -H -L --file --directory --exclude --files-from"


def tar(fields: Fields) -> list[Write]:
    """``tar``; the old form gives the values of its letters one after another."""
    if fields and re.fullmatch(r"[A-Za-z]+", fields[0]):
        rest = list(fields[1:])
        spread: list[str] = []
        for letter in fields[0]:
            spread.append(f"-{letter}")
            if f"-{letter}" in _TAR.split() and rest:
                spread.append(rest.pop(0))
        fields = (*spread, *rest)
    given = split(fields, _TAR)
    folders = given.values("-C", "--directory", "--one-top-level")
    if given.has("-x", "--extract", "--get"):
        absolute = given.has("-P", "--absolute-names")
        found = [Write(folder, CREATE) for folder in folders] or [Write(".", CREATE)]
        return [*found, Write(SPLIT, CREATE)] if absolute else found
    if given.has("-c", "-r", "-u", "-A", "--create", "--append", "--update"):
        return [Write(path, CREATE) for path in given.values("-f", "--file") if path != "-"]
    return []


def unzip(fields: Fields) -> list[Write]:
    given = split(fields, "-d -x -P")
    if given.has("-l", "-t", "-p", "-v", "-Z"):
        return []
    return [Write(path, CREATE) for path in given.values("-d")] or [Write(".", CREATE)]


def compress(fields: Fields) -> list[Write]:
    given = split(fields, "-S -p -b -T")
    if given.has("-c", "--stdout", "-t", "-l"):
        return []
    return [Write(path, RENAME) for path in given.operands]


def curl(fields: Fields) -> list[Write]:
    given = split(fields, CURL_VALUED)
    folder = (given.values("--output-dir") or [""])[-1]
    found = [
        Write(under(folder, path) if folder and not path.startswith("/") else path, CREATE)
        for path in given.values("-o", "--output")
        if path != "-"
    ]
    if given.has("-O", "--remote-name", "--remote-name-all", "-J"):
        found += [Write(under(folder or ".", leaf(url)), CREATE) for url in given.operands]
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


def wget(fields: Fields) -> list[Write]:
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
        found += [Write(under(folder, leaf(url)), CREATE) for url in given.operands]
    return found


def find(fields: Fields) -> list[Write]:
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


def patch(fields: Fields) -> list[Write]:
    given = split(fields, "-d -i -o -p -r -B -D -F -V -Y -z --directory --input --output")
    found = [Write(path, CREATE) for path in given.values("-o", "-r", "--output")]
    folders = given.values("-d", "--directory")
    return found + [Write(path, MODIFY) for path in (*folders, *given.operands[:1])]


def python(fields: Fields) -> list[Write]:
    if len(fields) > 1 and fields[0] == "-m":
        if fields[1] == "venv":
            return each(CREATE, "--prompt")(fields[2:])
        if fields[1] == "pip":
            return options(CREATE, "-t --target --prefix --root -d --dest")(fields[2:])
        if fields[1] == "zipfile" and "-e" in fields:
            return [Write(fields[-1], CREATE)]
        if fields[1] == "tarfile" and "-e" in fields:
            return [Write(fields[-1], CREATE)]
    return []


def awk(fields: Fields) -> list[Write]:
    if "inplace" in fields:
        return [Write(path, MODIFY) for path in split(fields, "-i -v -F -f").operands[1:]]
    found = []
    for field in fields:
        found += [Write(path, CREATE) for path in re.findall(r'>{1,2}\s*"([^"]+)"', field) if path]
    return found
