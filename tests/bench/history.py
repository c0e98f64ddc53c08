"""A repository with a long history, made in seconds by ``git fast-import``."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from coven.values import Sha
from tests.integration.workspace_kit import ENV, git

FILES = 10_000
COMMITS = 20_000
_PER_FOLDER = 40
_WORDS = ("value", "return", "self", "result", "index", "name", "if", "for", "in", "not", "item")


def make_history(bare: Path, files: int = FILES, commits: int = COMMITS) -> tuple[Sha, Sha]:
    """Fill ``bare``; the base on ``main`` and a pull request head on top of it."""
    process = subprocess.Popen(  # noqa: TID251 - a tool of this benchmark
        ["git", "fast-import", "--quiet", "--depth=20"],
        cwd=bare,
        env=ENV,
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None
    for piece in _stream(files, commits):
        process.stdin.write(piece)
    process.stdin.close()
    if process.wait() != 0:
        raise RuntimeError("git fast-import failed")
    git(bare, "repack", "-q", "-a", "-d", "--write-bitmap-index")
    return Sha(git(bare, "rev-parse", "main")), Sha(git(bare, "rev-parse", "refs/pull/7/head"))


def _stream(files: int, commits: int) -> Iterator[bytes]:
    rng = random.Random(7)
    paths = [f"src/part{n // _PER_FOLDER:03d}/module_{n:05d}.py" for n in range(files)]
    yield from _commit("refs/heads/main", 0, [(path, _code(rng)) for path in paths])
    for number in range(1, commits - 1):
        yield from _commit("refs/heads/main", number, [(rng.choice(paths), _code(rng))])
    yield b"reset refs/pull/7/head\nfrom refs/heads/main\n\n"
    yield from _commit("refs/pull/7/head", commits, [(path, _code(rng)) for path in paths[:20]])


def _commit(ref: str, number: int, changes: list[tuple[str, bytes]]) -> Iterator[bytes]:
    when = 1_600_000_000 + number * 60
    yield f"commit {ref}\ncommitter Dev <dev@example.test> {when} +0000\n".encode()
    message = f"Change {number}\n".encode()
    yield b"data %d\n%s\n" % (len(message), message)
    for path, content in changes:
        yield f"M 100644 inline {path}\n".encode()
        yield b"data %d\n%s\n" % (len(content), content)


def _code(rng: random.Random) -> bytes:
    lines = [" ".join(rng.choices(_WORDS, k=6)) for _ in range(rng.randint(20, 80))]
    return ("\n".join(lines) + "\n").encode()
