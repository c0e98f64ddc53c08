"""Judging a memory report: the committed corpus, and what holds for any report."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.contract.memory import MemoryProposal, MemoryRead, MemoryUsed
from coven.memory.book import Entry
from coven.memory.policy import Grant, grant_for
from coven.memory.record import record, refusals
from coven.memory.validation import Judged, Kind, Reason, judge_memory
from coven.redaction import Redactor
from coven.settings.models import Memory, Settings
from coven.texts import CheckText, Voice, Work
from coven.texts_review import Links, ReviewReport, check_review, memory_line, with_memory
from coven.values import TrustScope
from tests.memory_book import entry
from tests.mutations import corpus
from tests.unit.test_memory_policy import FACTS, ON

CORPUS = Path(__file__).parents[1] / "fixtures" / "memory" / "reports.json"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REDACTOR = Redactor(["plain-live-value-77"])
MINE = "repo/acme/billing/conventions/x"


def grant_of(case: dict[str, Any]) -> Grant:
    memory = Memory(
        enabled=case["enabled"], self_hosted=True, approval_required=case["approval_required"]
    )
    facts = replace(
        FACTS,
        trust=TrustScope(case["trust"]),
        content_trust=TrustScope(case["content"]),
        same_repo=case["same_repo"],
    )
    return grant_for(Settings(memory=memory), facts, case["sent"])


def judge(
    report: MemoryUsed, grant: Grant | None = None, known: dict[str, Entry] | None = None
) -> Judged:
    return judge_memory(grant or grant_for(ON, FACTS, ()), report, (), REDACTOR, NOW, known)


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["rule"]) for c in json.loads(CORPUS.read_text())]
)
def test_every_entry_gets_its_decision(case: dict[str, Any]) -> None:
    report = MemoryUsed.model_validate_json(json.dumps(case["report"]))
    grant = None if case.get("no_policy") else grant_of(case)
    known = {text: corpus.entry(**facts) for text, facts in case.get("known", {}).items()}
    found = judge_memory(grant, report, case["denied"], REDACTOR, NOW, known)
    assert [each.reason for each in found.decisions] == case["expect"]
    assert len(found.alarms) == case["alarms"]
    written = json.dumps(record(grant, found))
    for secret in ("ghp_a1B2", "plain-live-value-77", "corp.example", "7946", "4111", "DE89"):
        assert secret not in written


def test_the_corpus_has_every_reason() -> None:
    seen = {reason for case in json.loads(CORPUS.read_text()) for reason in case["expect"]}
    assert seen == {None, *(reason.value for reason in Reason)}


def test_without_a_policy_nothing_is_accepted_and_all_of_it_recorded() -> None:
    report = MemoryUsed(
        enabled=True,
        read=(MemoryRead(id=MINE, scope="repo"),),
        proposed=(MemoryProposal(key=MINE, summary="x", scope="repo", approval="pending"),),
    )
    found = judge_memory(None, report, (), REDACTOR, NOW)
    assert [each.reason for each in found.decisions] == [Reason.POLICY_DISABLED] * 2
    assert len(record(None, found)["decisions"]) == 2
    assert judge_memory(None, None, (), REDACTOR, NOW).decisions == ()


_texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from([MINE, "tenant/42/a/b", "repo/acme/other/a/b", "repo/acme/billing/../x/y"]),
)
_scopes = st.sampled_from(["repo", "tenant_shared", "familiar_global"])


@settings(deadline=None, max_examples=150)
@given(
    st.builds(
        MemoryUsed,
        enabled=st.booleans(),
        read=st.lists(st.builds(MemoryRead, id=_texts.filter(bool), scope=_scopes)).map(tuple),
        proposed=st.lists(
            st.builds(
                MemoryProposal,
                key=_texts.filter(bool),
                summary=_texts,
                scope=_scopes,
                approval=st.sampled_from(["pending", "applied", "auto"]),
            )
        ).map(tuple),
    ),
    st.sampled_from(list(TrustScope)),
    st.sampled_from(list(TrustScope)),
    st.booleans(),
)
def test_nothing_is_accepted_that_was_not_granted(
    report: MemoryUsed, trust: TrustScope, content: TrustScope, same_repo: bool
) -> None:
    facts = replace(FACTS, trust=trust, content_trust=content, same_repo=same_repo)
    grant = grant_for(ON, facts, ())
    found = judge(report, grant)
    assert len(found.decisions) == len(report.read) + len(report.proposed)
    for each in found.decisions:
        if not each.accepted:
            continue
        assert report.enabled
        assert each.target is not None
        assert each.target.startswith(("repo/acme/billing/", "tenant/42/"))
        assert each.scope in grant.policy.read_scopes
        if each.kind is Kind.PROPOSED:
            assert same_repo
            assert not {trust, content} & {TrustScope.EXTERNAL, TrustScope.FORK_PR}
            assert each.approval == "pending"


def test_only_what_the_book_has_is_cited_by_key_or_by_id() -> None:
    here, other = entry(place="conventions/x"), entry(place="conventions/y")
    report = MemoryUsed(
        enabled=True,
        read=tuple(
            MemoryRead(id=each, scope="repo")
            for each in (MINE, other.id, f"{MINE}/made-up", "M-00000000")
        ),
    )
    found = judge(report, known={MINE: here, other.id: other})
    assert [each.entry for each in found.decisions] == [here.id, other.id, None, None]
    assert [each.reason for each in found.decisions] == [None, None, None, Reason.NOT_ADDRESSABLE]
    assert len(found.alarms) == 1


def test_a_text_too_long_to_be_a_fact_is_refused() -> None:
    proposals = tuple(
        MemoryProposal(key=MINE, summary="x " * n, scope="repo", approval="pending")
        for n in (1_000, 1_001)
    )
    found = judge(MemoryUsed(enabled=True, proposed=proposals))
    assert [each.reason for each in found.decisions] == [None, Reason.LOW_CONFIDENCE]


def test_ten_thousand_entries_are_judged_well_within_a_second() -> None:
    report = MemoryUsed(
        enabled=True,
        proposed=tuple(
            MemoryProposal(
                key=f"{MINE}{n}",
                summary=f"Tax tables live in src/tax/tables{n}.rs, not the DB.",
                scope="repo",
                approval="pending",
            )
            for n in range(10_000)
        ),
    )
    began = time.process_time()
    found = judge(report)
    assert time.process_time() - began < 0.9
    assert all(each.accepted for each in found.decisions)


def test_the_check_run_counts_what_was_refused() -> None:
    report = MemoryUsed(
        enabled=True,
        proposed=(
            MemoryProposal(key="../x", summary="x", scope="repo", approval="auto"),
            MemoryProposal(key=MINE, summary="x", scope="repo", approval="auto"),
        ),
    )
    found = judge(report)
    shown = ReviewReport(
        summary="Fine.",
        evidence="complete",
        files_changed=1,
        files_reviewed=["a.py"],
        supporting_files=[],
        findings=[],
        withheld=[],
        tests=[],
        limitations=[],
        no_findings_reason="All is well.",
        memory_refused=refusals(found),
    )
    work = Work("review", 7, True, "T", "a" * 40)
    summary = check_review(Voice("Cody", "cody-familiar"), work, shown, Links()).summary
    assert "2 proposals refused (1 `not_addressable`, 1 `approval_required`)." in summary


def test_a_run_that_kept_to_its_grant_is_not_mentioned() -> None:
    text = CheckText("t", "s", None)
    assert memory_line(()) is None
    assert with_memory(text, ()) is text
    assert with_memory(text, [("read", 1, [("revoked", 1)])]).summary == (
        "s\n\n**Memory:** 1 read refused (1 `revoked`)."
    )
