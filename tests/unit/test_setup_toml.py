"""Keys are changed in a TOML text, and nothing else is."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coven.setup.toml_text import Change, NotMergeable, merge, spelled

TEXT = """# mine
[server]
bind = "127.0.0.1:1"   # keep

[github]
app_id = 0
webhook_secret = "old"

[[familiars]]
id = "x"
"""


def test_comments_and_other_keys_stay() -> None:
    merged = merge(
        TEXT,
        [
            Change("github", "app_id", 7),
            Change("github", "webhook_secret", None),
            Change("github", "webhook_secret_file", "secrets/w"),
            Change("server", "public_url", "https://c.example.com"),
            Change("review", "pull_request", True),
        ],
    )
    assert '# mine\n[server]\nbind = "127.0.0.1:1"   # keep\npublic_url = ' in merged
    data = tomllib.loads(merged)
    assert data["github"] == {"app_id": 7, "webhook_secret_file": "secrets/w"}
    assert data["review"] == {"pull_request": True}
    assert data["familiars"] == [{"id": "x"}]


def test_what_is_right_already_is_left_alone() -> None:
    assert merge(TEXT, [Change("github", "app_id", 0)]) == TEXT


def test_tables_are_added_at_the_end() -> None:
    merged = merge(TEXT, [], [("familiars", {"id": "y", "trigger_labels": ("y:fix",)})])
    assert tomllib.loads(merged)["familiars"][1] == {"id": "y", "trigger_labels": ["y:fix"]}


@pytest.mark.parametrize(
    "text",
    [
        "github = {app_id = 1}\n",
        "github.app_id = 1\n",
        '[github]\nwebhook_secret = """\napp_id = 3\n"""\napp_id = 1\n',
        "github = 3\n",
        "[github\n",
        '[github]\n"app_id" = 1\n',
    ],
)
def test_a_style_that_cannot_be_edited_safely_is_refused_not_damaged(text: str) -> None:
    with pytest.raises(NotMergeable):
        merge(text, [Change("github", "app_id", 7)])


@given(st.text())
def test_every_text_is_spelled_so_that_toml_reads_it_back(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(f"k = {spelled(text)}")["k"] == text
