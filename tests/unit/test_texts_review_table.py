from __future__ import annotations

from markdown_it import MarkdownIt

from coven.texts import Voice, Work
from coven.texts_review import Links, ReviewReport, check_review

HOSTILE = "make | @everyone ![x](https://evil.example/x) <b> | tee `@mona`"


def test_what_a_session_names_stays_in_its_cell_of_the_evidence_table() -> None:
    report = ReviewReport(
        summary="Fine.",
        evidence="complete",
        files_changed=1,
        files_reviewed=["a.py"],
        supporting_files=[HOSTILE],
        findings=[],
        withheld=[],
        tests=[(HOSTILE, "passed")],
        limitations=[],
        no_findings_reason="All is well.",
    )
    text = check_review(
        Voice("Cody", "cody-familiar"), Work("review", 7, True, "T", "a" * 40), report, Links()
    )
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text.summary)
    cells = [t for t in tokens if t.type == "inline" and HOSTILE.split()[1] in t.content]
    assert len(cells) == 2
    for cell in cells:
        words = "".join(t.content for t in cell.children or [] if t.type != "code_inline")
        assert words.strip() in {"", "passed"}
