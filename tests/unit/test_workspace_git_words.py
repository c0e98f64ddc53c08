"""Git's environment and git's words."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from coven.errors import ConfigurationError, Retry, WorkspaceError, WorkspaceUnavailable
from worker.workspace.changes import parse_listing, whole_lines
from worker.workspace.errors import (
    AccessRefused,
    CommitNotFound,
    HostileRepository,
    MirrorCorrupt,
    PushRefused,
    RepositoryNotFound,
    TooBig,
    classify,
)
from worker.workspace.git import (
    authorization,
    hardened_environment,
    protocols_for,
    proxy_environment,
)
from worker.workspace.tree import parse_plan, sparse_pattern


def test_nothing_of_this_process_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "evil")
    monkeypatch.setenv("GIT_TRACE_CURL", "1")
    monkeypatch.setenv("LD_PRELOAD", "evil.so")
    env = hardened_environment(Path("/h"), ["https"])
    assert "LD_PRELOAD" not in env
    assert not [name for name in env if name.startswith("GIT_TRACE")]
    assert env["GIT_SSH_COMMAND"] == "/bin/false"
    assert env["PATH"] != os.environ["PATH"] or "evil" not in env["PATH"]


def test_only_the_chosen_transport_is_allowed() -> None:
    env = hardened_environment(Path("/h"), ["https"])
    values = {
        env[f"GIT_CONFIG_KEY_{i}"]: env[f"GIT_CONFIG_VALUE_{i}"]
        for i in range(int(env["GIT_CONFIG_COUNT"]))
    }
    assert env["GIT_ALLOW_PROTOCOL"] == "https"
    assert values["protocol.allow"] == "never"
    assert values["protocol.https.allow"] == "always"
    assert values["core.hooksPath"] == "/dev/null"
    assert values["credential.helper"] == ""
    assert "protocol.file.allow" not in values


def test_the_header_carries_the_token_as_github_wants_it() -> None:
    scheme = authorization("abc").removeprefix("Authorization: Basic ")
    assert base64.b64decode(scheme) == b"x-access-token:abc"


@pytest.mark.parametrize(
    ("base", "protocols"),
    [
        ("https://github.com", ("https",)),
        ("https://ghe.example.com", ("https",)),
        ("http://127.0.0.1:8000", ("http",)),
        ("http://localhost:8000", ("http",)),
    ],
)
def test_transports_follow_the_configured_host(base: str, protocols: tuple[str, ...]) -> None:
    assert protocols_for(base) == protocols


@pytest.mark.parametrize(
    "base",
    ["http://github.com", "http://127.0.0.1.evil.example", "file:///srv", "ssh://git@github.com",
     "ext::sh -c x", "https://user:pw@github.com", "https://"],
)  # fmt: skip
def test_other_transports_are_a_configuration_error(base: str) -> None:
    with pytest.raises(ConfigurationError, match="html_base_url"):
        protocols_for(base)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (
            "remote: Repository not found.\nfatal: repository 'https://h/o/r.git/' not found",
            RepositoryNotFound,
        ),
        (
            "fatal: unable to access 'https://h/': The requested URL returned error: 301",
            RepositoryNotFound,
        ),
        ("fatal: Authentication failed for 'https://h/o/r.git/'", AccessRefused),
        (
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            AccessRefused,
        ),
        (
            "fatal: unable to access 'https://h/': The requested URL returned error: 403",
            AccessRefused,
        ),
        ("fatal: remote error: upload-pack: not our ref 1234", CommitNotFound),
        ("fatal: couldn't find remote ref refs/pull/9/head", CommitNotFound),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", WorkspaceUnavailable),
        (
            "fatal: unable to access 'https://h/': The requested URL returned error: 502",
            WorkspaceUnavailable,
        ),
        ("fatal: early EOF\nfatal: fetch-pack: invalid index-pack output", WorkspaceUnavailable),
        (
            "error: object 1: hasDotgit: contains '.git'\nfatal: fsck error in packed object",
            HostileRepository,
        ),
        ("error: inflate: data stream error (incorrect header check)", MirrorCorrupt),
        ("fatal: not a git repository: '/x'", MirrorCorrupt),
        ("! [rejected] main -> main (stale info)", PushRefused),
        ("fatal: write error: File too large", TooBig),
        ("fatal: something nobody has seen before", WorkspaceError),
    ],
)
def test_gits_words_map_to_one_remedy(words: str, kind: type[WorkspaceError]) -> None:
    assert classify(128, words) is kind


def test_a_file_size_signal_means_too_big_and_any_other_signal_is_worth_a_retry() -> None:
    assert classify(-25, "") is TooBig
    assert classify(-9, "").retry is Retry.BACKOFF


def test_a_listing_with_renames_binaries_and_submodules_is_read() -> None:
    zero, one = b"0" * 40, b"1" * 40
    listing = (
        b":100644 100644 " + one + b" " + one + b" M\0a\nb\0"
        b":100644 100644 " + one + b" " + one + b" R090\0old\0new\0"
        b":000000 160000 " + zero + b" " + one + b" A\0mod\0"
        b":000000 100644 " + zero + b" " + one + b" A\0bin\xff\0"
        b"1\t2\ta\nb\0" + b"3\t0\t\0old\0new\0" + b"1\t0\tmod\0" + b"-\t-\tbin\xff\0"
    )
    files = parse_listing(listing)
    assert [(f.status, f.additions, f.deletions) for f in files] == [
        ("modified", 1, 2),
        ("renamed", 3, 0),
        ("added", 1, 0),
        ("added", None, None),
    ]
    assert files[1].previous_filename == "old"
    assert files[2].submodule
    assert files[3].binary
    assert not files[3].representable
    assert files[0].shown == "a\\nb"


@pytest.mark.parametrize("listing", [b":1\0", b"x", b":1 1 1 1 Z\0a\0", b"a\tb\tc\0"])
def test_a_listing_that_makes_no_sense_is_corrupt(listing: bytes) -> None:
    with pytest.raises(MirrorCorrupt):
        parse_listing(listing)


def test_a_cut_patch_ends_at_a_line() -> None:
    assert whole_lines(b"a\nb\nhalf", cut=True) == "a\nb\n"
    assert whole_lines(b"a\nb", cut=False) == "a\nb"


def test_a_tree_plan_counts_and_names_what_matters() -> None:
    long = b"x" * 300
    plan = parse_plan(
        b"\0".join(
            [
                b"100644 blob 1      10\ta",
                b"120000 blob 1 3\tlink",
                b"160000 commit 1 -\tmod",
                b"100644 blob 1 5\tsub/AGENTS.md",
                b"100644 blob 1 1\t" + long,
                b"",
            ]
        ),
        10,
    )
    assert (plan.files, plan.total_bytes, plan.symlinks) == (4, 19, 1)
    assert plan.submodules == ("mod",)
    assert plan.agent_paths == ("sub/AGENTS.md",)
    assert plan.unwritable == (long.decode(),)


def test_a_sparse_pattern_matches_only_its_own_path() -> None:
    assert sparse_pattern("a*[b]?\\!#/ c") == "/a\\*\\[b\\]\\?\\\\\\!\\#/\\ c"
    assert sparse_pattern("a\nb") == "/a?b"


def test_the_way_to_the_network_is_taken_from_the_workers_environment() -> None:
    found = proxy_environment(
        {
            "https_proxy": "http://proxy.example:3128",
            "NO_PROXY": "git.internal",
            "REQUESTS_CA_BUNDLE": "/etc/ours.pem",
            "SSL_CERT_FILE": "/etc/theirs.pem",
            "COVEN_GITHUB__GITHUB__WEBHOOK_SECRET": "secret",
        }
    )
    assert found == {
        "HTTPS_PROXY": "http://proxy.example:3128",
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "git.internal,127.0.0.1,localhost,::1",
        "no_proxy": "git.internal,127.0.0.1,localhost,::1",
        "GIT_SSL_CAINFO": "/etc/ours.pem",
    }
    assert proxy_environment({}) == {}
