"""What people read about memory: whole proposals, bounded lists, harmless text, the next step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven import texts_memory as texts
from coven import texts_memory_replies as replies
from coven.github_limits import (
    ACTION_DESCRIPTION,
    ACTION_LABEL,
    CHECK_SUMMARY,
    COMMENT,
    MEMORY_BYTES,
)
from coven.memory.book import SUMMARY_CHARS, Decided, Entry, EntryState, Refusal
from coven.publication import MEMORY_BUTTON, StatusCommentContent, with_memory
from coven.texts import Voice
from coven.texts_memory import Cited, MemoryView
from tests.memory_book import entry

VOICE = Voice("Cody", "cody-familiar")


def waiting(number: int = 1, **changes: Any) -> Entry:
    facts: dict[str, Any] = {
        "id": f"M-{number:08d}",
        "state": EntryState.PENDING,
        "decided_by_id": None,
        "decided_by_login": None,
        "decided_at": None,
    }
    return entry(**facts | changes)


def pages(entry_id: str) -> str:
    return f"https://coven.example.com/ops/memory/42/{entry_id}"


def test_what_a_maintainer_reads_on_a_status_comment() -> None:
    view = MemoryView(
        pending=[waiting(summary="Tax tables live in `src/tax.rs`.", place="conventions/tax")],
        decided=[entry(id="M-00000002", summary="Round half up.", decided_by_login="ann")],
        cited=[
            Cited(entry(id="M-00000003", summary="Money is in cents."), used=False),
            Cited(entry(id="M-00000004", summary="Dates are UTC."), used=True),
        ],
        page="https://coven.example.com/ops/tasks/1/memory",
        on_thread=True,
    )
    assert texts.section(VOICE, view, pages) == "\n".join(
        [
            "**One proposal for memory waits for a maintainer.** Until then no run is given it.",
            "",
            "- `M-00000001`: Tax tables live in \\`src/tax.rs\\`.",
            "  - `@cody-familiar approve M-00000001` or `@cody-familiar deny M-00000001`, "
            "for `repo/acme/billing/conventions/tax`",
            "",
            "While it is the only one here, `@cody-familiar remember` approves it too.",
            "",
            "**Proposed here and answered**",
            "",
            "- [M-00000002](<https://coven.example.com/ops/memory/42/M-00000002>): "
            "Round half up. · approved by ann on 2026-01-01",
            "",
            "**From memory:** 2 entries supplied, 1 reported as used.",
            "",
            "- [M-00000004](<https://coven.example.com/ops/memory/42/M-00000004>): "
            "Dates are UTC. · approved by ann on 2026-01-01 · **used**",
            "- [M-00000003](<https://coven.example.com/ops/memory/42/M-00000003>): "
            "Money is in cents. · approved by ann on 2026-01-01 · supplied",
            "",
            "[Which memory shaped this](<https://coven.example.com/ops/tasks/1/memory>)",
        ]
    )


def test_nothing_to_say_about_memory_is_no_section() -> None:
    assert texts.section(VOICE, MemoryView(page="https://coven.example.com/x")) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "approved by ann on 2026-01-01"),
        ({"decided_by_login": None}, "approved by policy on 2026-01-01"),
        ({"state": EntryState.REJECTED}, "denied by ann on 2026-01-01"),
        ({"state": EntryState.REVOKED}, "taken back by ann on 2026-01-01"),
        ({"state": EntryState.EXPIRED, "replaced_by": "M-00000009"}, "replaced by `M-00000009`"),
        ({"state": EntryState.EXPIRED, "decided_by_login": None}, "expired on 2026-01-01"),
        ({"state": EntryState.PENDING}, "waits since 2026-01-01"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_every_state_says_who_and_when(changes: dict[str, Any], told: str) -> None:
    assert texts.standing(entry(**changes)) == told


def test_links_stand_only_where_there_is_a_page() -> None:
    view = MemoryView(cited=[Cited(entry(id="M-00000001"), used=True)])
    shown = texts.section(VOICE, view)
    assert shown is not None
    assert "`M-00000001`" in shown
    assert "](<" not in shown


def test_citations_are_bounded_and_counted_used_ones_first() -> None:
    cited = [Cited(entry(id=f"M-{n:08d}"), used=n % 2 == 1) for n in range(30)]
    shown = texts.section(VOICE, MemoryView(cited=cited, listed=5))
    assert shown is not None
    assert "30 entries supplied, 15 reported as used." in shown
    assert shown.count("**used**") == 5
    assert "…and 25 more" in shown


def test_keys_that_only_the_runtime_knows_are_told_apart() -> None:
    shown = texts.section(VOICE, MemoryView(elsewhere=["repo/acme/billing/x/y"]))
    assert shown is not None
    assert "`repo/acme/billing/x/y` · **used**, not kept here" in shown


def test_what_all_repositories_share_is_not_repeated_in_public() -> None:
    shared = entry(repo_id=None, repo=None, summary="We buy them.")
    for public in (True, False):
        shown = texts.section(VOICE, MemoryView(cited=[Cited(shared, used=True)], public=public))
        assert shown is not None
        assert ("We buy them." in shown) is not public


HOSTILE = "\u202e".join(["`", "@ann", "|", "<!--", "]("] * 80) + "\U000e0041" * 1_000


def test_an_id_never_stands_beside_a_part_of_its_text() -> None:
    # The largest text of the book, all of it in need of escapes, still stands there whole.
    text = HOSTILE[:SUMMARY_CHARS] + "\u200b" * max(0, SUMMARY_CHARS - len(HOSTILE))
    shown = texts.section(VOICE, MemoryView(pending=[waiting(summary=text)]))
    assert shown is not None
    assert shown.count("{e0041") == text.count("\U000e0041")
    assert "…" not in shown
    many = [waiting(n, summary=f"{n}: " + "word " * 390) for n in range(1, 60)]
    shown = texts.section(VOICE, MemoryView(pending=many))
    assert shown is not None
    assert len(shown.encode()) <= MEMORY_BYTES
    listed = [each for each in many if f"approve {each.id}" in shown]
    assert all(each.summary.strip() in shown for each in listed)
    assert f"…and {60 - 1 - len(listed)} more" in shown


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.text(max_size=60))
def test_no_text_becomes_a_mention_a_reference_or_html(text: str, login: str) -> None:
    hostile = f"{text} @ann #1 <b>x</b> https://evil.example {text}"
    view = MemoryView(
        pending=[waiting(summary=hostile)],
        decided=[entry(summary=hostile, decided_by_login=login or None)],
        cited=[Cited(entry(summary=hostile, decided_by_login=login or None), used=True)],
        elsewhere=[text],
    )
    shown = texts.section(VOICE, view)
    assert shown is not None
    assert "<b>" not in shown
    assert "`@ann`" in shown
    for part in ("[@ann", " @ann", "\u202e", "\u200b"):
        assert part not in shown


def test_github_takes_the_button_and_the_longest_texts() -> None:
    assert len(MEMORY_BUTTON.label) <= ACTION_LABEL
    assert len(MEMORY_BUTTON.description) <= ACTION_DESCRIPTION
    memory = "m" * MEMORY_BYTES
    assert len(with_memory("x\n\n" * 25_000, memory, CHECK_SUMMARY).encode()) <= CHECK_SUMMARY
    comment = StatusCommentContent(
        thread=1, familiar_id="cody", state="done", body="x\n\n" * 25_000, memory=memory
    )
    assert len(comment.whole_body.encode()) <= COMMENT - 300
    assert comment.whole_body.endswith(memory)
    assert with_memory("text", None, 10) == "text"


def test_every_refusal_ends_with_the_next_step() -> None:
    said = [
        replies.reply_withheld(None),
        replies.reply_withheld("mail address"),
        replies.reply_memory_off(VOICE),
        replies.reply_remember_what(VOICE, []),
        replies.reply_forget_nothing(VOICE, ""),
        replies.reply_forget_nothing(VOICE, "x"),
        replies.reply_forget_which(VOICE, [entry(), entry()]),
        replies.reply_forget_not_yours(),
        *(
            replies.reply_not_remembered(VOICE, why, 3_000, "repo/a/b/notes/x")
            for why in (Refusal.TOO_LONG, Refusal.REVOKED_KEY, Refusal.OTHER_OWNER)
        ),
    ]
    for each in said:
        assert "**Next:**" in each, each


@pytest.mark.parametrize("why", list(Refusal))
def test_every_reason_of_the_book_has_words_and_names_the_id(why: Refusal) -> None:
    there = waiting(id="M-00000001")
    for about in (None, there):
        line = replies.refused_line(VOICE, "M-00000001", Decided(about, why))
        assert "`M-00000001`" in line
        assert "_" not in line.replace("`", "")


def test_a_list_of_memory_fits_into_a_comment() -> None:
    many = [entry(id=f"M-{n:08d}", summary="word " * 400) for n in range(200)]
    asked = [waiting(n, summary="word " * 400) for n in range(200)]
    body = replies.reply_memory(VOICE, asked, many, more=True, pages=pages)
    assert len(body.encode()) <= COMMENT - 300
    assert "…and more" in body
