"""Globs mean what the documentation says, character by character."""

from __future__ import annotations

import pytest

from coven.governance.globs import path_glob, wildcard
from coven.governance.paths import lexical

PATHS = [
    ("/tmp/**", "/tmp", True),
    ("/tmp/**", "/tmp/a/b", True),
    ("/tmp/**", "/tmp/.x", True),
    ("/tmp/**", "/tmpx", False),
    ("/tmp/**", "/x/tmp/a", False),
    ("/tmp/**", "/", False),
    ("/tmp/*", "/tmp", False),
    ("/tmp/*", "/tmp/a", True),
    ("/tmp/*", "/tmp/.a", True),
    ("/tmp/*", "/tmp/a/b", False),
    ("/tmp/", "/tmp", True),
    ("//tmp//x", "/tmp/x", True),
    ("/**", "/", True),
    ("/**/**", "/a", True),
    ("**", "/a/b", True),
    ("**/*.py", "/a.py", True),
    ("**/*.py", "/a/b/c.py", True),
    ("**/*.py", "/a.pyc", False),
    ("**/.git/**", "/.git", True),
    ("**/.git/**", "/a/.git/x", True),
    ("**/.git/**", "/a/x.git/y", False),
    ("**/a/**/b", "/a/b", True),
    ("**/a/**/b", "/x/a/a/y/b", True),
    ("**/a/**/b", "/a/b/c", False),
    ("/src/**/test/*", "/src/test/x", True),
    ("/src/**/test/*", "/src/test/x/y", False),
    ("/a/?", "/a/b", True),
    ("/a/?", "/a", False),
    ("/a/?", "/a/bc", False),
    ("/a/?", "/a/é", True),
    ("/a/[bc]", "/a/c", True),
    ("/a/[bc]", "/a/d", False),
    ("/a/[!bc]", "/a/d", True),
    ("/a/[!bc]", "/a/b", False),
    ("/a/[^bc]", "/a/b", False),
    ("/a/[a-c]x", "/a/bx", True),
    ("/a/[a-c]x", "/a/dx", False),
    ("/a/[]]", "/a/]", True),
    ("/a/[!]]", "/a/]", False),
    ("/a/[a-]", "/a/-", True),
    ("/a/{b,c}", "/a/b", False),
    ("/a/{b,c}", "/a/{b,c}", True),
    ("/a/\\*", "/a/\\x", True),
    ("/a/\\*", "/a/*", False),
    ("/a+b(1).py", "/a+b(1).py", True),
    ("/a.py", "/axpy", False),
    ("/A", "/a", False),
    ("/a*b*c", "/aXbXbXc", True),
    ("/a*b*c", "/aXcXb", False),
]


@pytest.mark.parametrize(("glob", "path", "matches"), PATHS)
def test_path_globs(glob: str, path: str, matches: bool) -> None:
    assert path_glob(glob).matches(lexical(path)) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*@example.com", "a@example.com.attacker.com", False),
        ("a*", "a", True),
        ("*", "", True),
        ("**", "x", True),
        ("", "", True),
        ("a?", "ab", False),
        ("a?", "a?", True),
        ("[a]", "[a]", True),
    ],
)
def test_wildcards_know_the_star_alone(pattern: str, text: str, matches: bool) -> None:
    assert wildcard(pattern).matches(text) is matches


@pytest.mark.parametrize(
    ("glob", "folders"),
    [
        ("/a/b/**", ["/a", "/a/b"]),
        ("/a/b", ["/a"]),
        ("/a", []),
        ("**/.git/hooks/**", ["**/.git", "**/.git/hooks"]),
        ("/home/*/.ssh/**", ["/home", "/home/*", "/home/*/.ssh"]),
    ],
)
def test_the_folders_above_are_those_that_the_pattern_names(glob: str, folders: list[str]) -> None:
    found = {above.segments for above in path_glob(glob).above()}
    assert found == {path_glob(folder).segments for folder in folders}
