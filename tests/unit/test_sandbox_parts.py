"""The sandbox's pure parts: places in diffs, permission levels, credentials, fault counting."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.sandbox import anchors, changes
from coven.sandbox.auth import allows, bearer
from coven.sandbox.faults import Faults
from coven.sandbox.gitrepo import GitRepo
from tests.support.openapi import Description, cut, modern, template

PATCH = """@@ -1,3 +1,4 @@
 one
-two
+zwei
+drei
 three
@@ -10 +11 @@ def f():
-ten
+zehn
\\ No newline at end of file"""


@pytest.mark.parametrize(
    ("line", "side", "hunk"),
    [
        (1, "RIGHT", 0),
        (3, "RIGHT", 0),
        (4, "RIGHT", 0),
        (11, "RIGHT", 1),
        (2, "LEFT", 0),
        (3, "LEFT", 0),
        (10, "LEFT", 1),
    ],
)
def test_a_line_of_the_diff_has_a_place(line: int, side: str, hunk: int) -> None:
    place = anchors.find(PATCH, line, side)
    assert place is not None
    assert place.hunk == hunk


@pytest.mark.parametrize(
    ("line", "side"), [(5, "RIGHT"), (10, "RIGHT"), (12, "RIGHT"), (4, "LEFT"), (11, "LEFT")]
)
def test_a_line_between_or_behind_hunks_has_none(line: int, side: str) -> None:
    assert anchors.find(PATCH, line, side) is None


def test_a_hunk_is_cut_at_its_line() -> None:
    place = anchors.find(PATCH, 2, "RIGHT")
    assert place is not None
    assert anchors.hunk_text(PATCH, place) == "@@ -1,3 +1,4 @@\n one\n-two\n+zwei"


TEXT = st.lists(st.sampled_from(["a", "b", "c", "", "+x", "-y", "@@ -1 +1 @@", "\\"]), max_size=30)


@settings(deadline=None, max_examples=25)
@given(old=TEXT, new=TEXT)
def test_every_added_line_of_a_real_diff_is_found(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]
) -> None:
    git = GitRepo(tmp_path_factory.mktemp("git") / "r.git")
    git.init("main", Path("/nonexistent"))
    who = ("A", "a@example.org")
    before = git.commit_files("main", {"f": "\n".join([*old, "end"]), "g": "g"}, "1", who, 1)
    after = git.commit_files("main", {"f": "\n".join([*new, "end"]), "g": "h"}, "2", who, 2)
    files = {f.filename: f for f in git.diff(before, after)}
    assert ("f" in files) == (old != new)
    if old != new:
        found = list(anchors.anchors(files["f"].patch or ""))
        lines = [*new, "end"]
        added = [a for a in found if a.left is None]
        removed = [a for a in found if a.right is None]
        assert (len(added), len(removed)) == (files["f"].additions, files["f"].deletions)
        shown = (files["f"].patch or "").split("\n")
        for place in found:
            if place.right is not None:
                assert shown[place.index][1:] == lines[place.right - 1]


@pytest.mark.parametrize(
    ("granted", "needs", "answer"),
    [
        ({}, "", True),
        ({}, "metadata=read", False),
        ({"checks": "write"}, "checks=read", True),
        ({"checks": "read"}, "checks=write", False),
        ({"issues": "write"}, "issues=write;pull_requests=write", True),
        ({"pull_requests": "write"}, "issues=write;pull_requests=write", True),
        ({"contents": "read"}, "contents=read,issues=read", False),
        ({"contents": "read", "issues": "admin"}, "contents=read,issues=read", True),
    ],
)
def test_permission_levels(granted: dict[str, str], needs: str, answer: bool) -> None:
    assert allows(granted, needs) is answer


@pytest.mark.parametrize(
    ("header", "credential"),
    [
        ("Bearer abc", "abc"),
        ("token abc", "abc"),
        ("Basic " + base64.b64encode(b"x-access-token:abc").decode(), "abc"),
        ("Basic !!!", None),
        ("Basic " + base64.b64encode(b"\xff\xfe").decode(), None),
        ("Digest abc", None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_credentials_of_a_header(header: str, credential: str | None) -> None:
    assert bearer(header) == credential


def test_a_fault_counts_what_it_matches_and_hits_its_window() -> None:
    faults = Faults()
    faults.add(method="GET", path="/a$", kind="status", nth=2, times=2)
    hits = [faults.take("GET", "/a") is not None for _ in range(5)]
    assert hits == [False, True, True, False, False]
    assert faults.take("POST", "/a") is None
    assert faults.take("GET", "/ab") is None
    (shown,) = faults.listed()
    assert (shown["seen"], shown["fired"]) == (5, 2)
    faults.clear()
    assert faults.listed() == []


def test_an_unknown_kind_of_fault_is_named() -> None:
    with pytest.raises(ValueError, match="kind must be one of drop, delay, status, expire"):
        Faults().add(method="GET", path="", kind="explode")


@pytest.mark.parametrize("name", ["main", "cody/fix-1", "a.b", "ü"])
def test_branch_names_that_git_takes(name: str) -> None:
    assert changes.BRANCH.match(name)


@pytest.mark.parametrize(
    "name", ["", "-x", "/x", "x/", "a..b", "a//b", "a b", "x.lock", "a@{b", "x.", "a\\b", "a:b"]
)
def test_branch_names_that_git_refuses(name: str) -> None:
    assert not changes.BRANCH.match(name)


def test_history_is_read_whole(tmp_path: Path) -> None:
    git = GitRepo(tmp_path / "r.git")
    git.init("main", tmp_path)
    who = ("Ann Ü", "ann@example.org")
    first = git.commit_files("main", {"a": "1"}, "One\n\nbody\n", who, 1_700_000_000)
    second = git.commit_files("main", {"a": "2"}, "", who, 1_700_000_001)
    newest, oldest = git.log("-n", "9", "main")
    assert (newest.sha, newest.parents, newest.message) == (second, (first,), "")
    assert (oldest.sha, oldest.parents, oldest.message) == (first, (), "One\n\nbody")
    assert oldest.author == ("Ann Ü", "ann@example.org", "2023-11-14T22:13:20Z")
    for name in ("--all", "-1", "", "none", "a\0b"):
        assert git.resolve(name) is None


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "t", "version": "1", "license": {"name": "MIT"}},
    "paths": {
        "/a/{id}": {"get": {"responses": {"200": {"description": "d", "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/a"}}}}}}},
        "/b": {"get": {"responses": {}}},
    },
    "components": {
        "schemas": {
            "a": {"type": "object", "required": ["description"], "properties": {
                "description": {"type": "string", "nullable": True, "description": "prose"}}},
            "unused": {"type": "string"},
        },
        "responses": {},
    },
}  # fmt: skip


def test_a_cut_keeps_names_and_drops_prose() -> None:
    small = cut(DOCUMENT, [("GET", "/a/{id}")])
    assert set(small["paths"]) == {"/a/{id}"}
    assert small["components"]["schemas"] == {
        "a": {
            "type": "object",
            "required": ["description"],
            "properties": {"description": {"type": "string", "nullable": True}},
        }
    }
    judge = Description(small)
    assert judge.problems("GET", "/a/7", 200, {"description": None}) == []
    assert judge.problems("GET", "/a/7", 200, {"description": 7})
    assert judge.problems("GET", "/a/7", 200, {})
    assert judge.problems("GET", "/c", 200, {})


def test_nullable_means_null_is_allowed_too() -> None:
    assert modern({"type": "string", "nullable": True, "enum": ["a"]}) == {
        "anyOf": [{"type": ["string", "null"], "enum": ["a", None]}, {"type": "null"}]
    }


def test_the_most_literal_path_wins() -> None:
    paths = ["/r/{o}/pulls/{n}", "/r/{o}/pulls/comments", "/r/{o}/contents/{path}"]
    assert template("/r/x/pulls/comments", paths) == "/r/{o}/pulls/comments"
    assert template("/r/x/pulls/1", paths) == "/r/{o}/pulls/{n}"
    assert template("/r/x/contents/a/b.py", paths) == "/r/{o}/contents/{path}"
    assert template("/r/x", paths) is None
