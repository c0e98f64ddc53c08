"""How arguments name files that are written: the common shapes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from coven.governance.bash_options import split
from coven.governance.bash_words import SPLIT, Fields

CREATE, MODIFY, DELETE, RENAME, CHMOD, SYMLINK = (
    "create", "modify", "delete", "rename", "chmod", "symlink"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """A path, as written in the command (with marks), and what happens to it."""

    path: str
    op: str


Reader = Callable[[Fields], list[Write]]


def each(op: str, valued: str = "", skip: int = 0, unless: str = "") -> Reader:
    """Every operand after the first ``skip`` is written."""

    def read(fields: Fields) -> list[Write]:
        given = split(fields, valued)
        first = 0 if unless and given.has(*unless.split()) else skip
        if SPLIT in given.operands[:first]:
            first = 0
        return [Write(path, op) for path in given.operands[first:]]

    return read


def into(op: str, valued: str, *, leaves: bool = True) -> Reader:
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
                return [Write(leaf(folders[0]), op)]
        found = [Write(folder, op) for folder in folders]
        if leaves:
            found += [
                Write(under(folder, leaf(source)), op)
                for folder in folders
                for source in sources[:64]
            ]
        if op == RENAME:
            found += [Write(source, RENAME) for source in sources]
        return found

    return read


def leaf(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def under(folder: str, leaf: str) -> str:
    return f"{folder.rstrip('/') or '/'}/{leaf}".replace("//", "/")


def options(op: str, names: str) -> Reader:
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


def last(op: str, valued: str = "", least: int = 1) -> Reader:
    """The last operand is written, when there are at least ``least``."""

    def read(fields: Fields) -> list[Write]:
        operands = split(fields, valued).operands
        return [Write(operands[-1], op)] if len(operands) >= least else []

    return read


def local(valued: str) -> Reader:
    """``scp`` and ``rsync``: the last operand, when it is not on another machine."""

    def read(fields: Fields) -> list[Write]:
        found = into(CREATE, valued)(fields)
        return [one for one in found if not re.match(r"[^/]*:", one.path)]

    return read
