"""The most severe match wins, what goes wrong refuses, and what is not known may be forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coven.errors import GovernanceRefused, StoreUnavailable
from coven.governance.actions import (
    Action,
    Bash,
    Custom,
    FilesystemWrite,
    Kind,
    NetworkRequest,
    Op,
    ProcessSpawn,
)
from coven.governance.evaluate import DEFAULT, Decision, decide
from coven.governance.matchers import BashFacts, Derived, SimpleCommand
from coven.governance.policy import Opinion, Policy, Verdict, build_policy
from coven.governance.rules import Rule
from coven.governance.world import Scope, no_machine

SCOPE = Scope(cwd="/ws", workspace="/ws")


def rule(name: str, severity: str, kind: str = "custom", matcher: Any = None, **more: Any) -> Rule:
    row = {"id": name, "kind": kind, "matcher": matcher or {"kind": "x"}, "severity": severity}
    return Rule.read({**row, "reason": f"because {name}", **more})


def judged(
    rules: list[Rule],
    action: Any = None,
    facts: BashFacts | None = None,
    scope: Scope = SCOPE,
    **policy: Any,
) -> Decision:
    built = build_policy(rules, epoch=7, **policy)
    world = no_machine(lambda _: facts or BashFacts(""))
    return decide(lambda: built, Custom("x") if action is None else action, scope, world)


@pytest.mark.parametrize(
    ("rules", "verdict", "reported"),
    [
        ([], "allow", None),
        ([("A", "log")], "allow", None),
        ([("A", "warn")], "warn", "A"),
        ([("A", "escalate")], "escalate", "A"),
        ([("A", "refuse")], "refuse", "A"),
        ([("A", "log"), ("B", "warn")], "warn", "B"),
        ([("A", "warn"), ("B", "escalate")], "escalate", "B"),
        ([("E1", "escalate"), ("R1", "refuse")], "refuse", "R1"),
        ([("R2", "refuse"), ("R1", "refuse")], "refuse", "R1"),
        ([("B", "refuse"), ("A", "warn"), ("C", "refuse")], "refuse", "B"),
    ],
    ids=str,
)
def test_the_most_severe_wins_and_the_lowest_id_is_reported(
    rules: list[tuple[str, str]], verdict: str, reported: str | None
) -> None:
    decision = judged([rule(name, severity) for name, severity in rules])
    assert (decision.verdict, decision.rule_id) == (verdict, reported)
    assert {match.rule_id for match in decision.matched} == {name for name, _ in rules}
    assert decision.policy_epoch == 7


@pytest.mark.parametrize(
    ("verdict", "allowed"),
    [("allow", True), ("warn", True), ("modify", True),
     ("ask", False), ("escalate", False), ("refuse", False)],
)  # fmt: skip
def test_only_listed_verdicts_allow(verdict: str, allowed: bool) -> None:
    decision = Decision(Verdict(verdict))
    assert decision.is_allowed is allowed
    assert decision.is_blocking is not allowed


def test_shapes_of_the_envelope() -> None:
    assert judged([]).json() == {"decision": "allow"}
    decision = judged([rule("A", "refuse"), rule("B", "log")])
    assert decision.json() == {"decision": "refuse", "rule_id": "A", "reason": "because A"}
    assert decision.matched_json() == [
        {"rule_id": "A", "severity": "refuse", "kind": "custom"},
        {"rule_id": "B", "severity": "log", "kind": "custom"},
    ]


@given(st.lists(st.sampled_from(["log", "warn", "escalate", "refuse"]), max_size=6), st.randoms())
def test_the_order_of_rules_does_not_matter_and_more_never_allow_more(
    severities: list[str], random: Any
) -> None:
    rules = [rule(f"R{n}", severity) for n, severity in enumerate(severities)]
    whole = judged(rules)
    random.shuffle(rules)
    assert judged(rules) == whole
    assert not (whole.is_allowed and judged(rules[1:]).is_blocking)


def test_narrower_rules_only_add() -> None:
    wide, narrow = rule("A", "refuse"), rule("B", "log", namespace="installation/1")
    inside = Scope(namespace="installation/1/repo/a/b")
    assert judged([wide, narrow], scope=inside).verdict == "refuse"
    assert [m.rule_id for m in judged([wide, narrow]).matched] == ["A"]


# Whatever goes wrong refuses.


class _Coded(GovernanceRefused):
    code = "governance:rollback"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable("gone"), "governance:unavailable"),
        (RuntimeError("bug"), "governance:unavailable"),
        (_Coded("older"), "governance:rollback"),
        (RecursionError(), "governance:unavailable"),
    ],
    ids=str,
)
def test_a_policy_that_can_not_be_had_refuses(error: Exception, code: str) -> None:
    def load() -> Policy:
        raise error

    decision = decide(load, Custom("x"), SCOPE, no_machine())
    assert (decision.verdict, decision.rule_id) == ("refuse", code)


@pytest.mark.parametrize(
    "asked", [b"", "null", "{}", '{"kind":"bash"}', {"kind": "bash", "command": "\0"}, {}]
)
def test_a_malformed_event_refuses(asked: Any) -> None:
    decision = judged([], asked)
    assert (decision.verdict, decision.rule_id) == ("refuse", "governance:malformed_event")


@pytest.mark.parametrize("answers", range(2))
def test_a_time_out_refuses_wherever_it_strikes(answers: int) -> None:
    ticks = iter([False] * answers + [True] * 9)
    policy = build_policy([rule("A", "log"), rule("B", "log"), rule("C", "log")])
    decision = decide(lambda: policy, Custom("x"), SCOPE, no_machine(), expired=lambda: next(ticks))
    assert (decision.verdict, decision.rule_id) == ("refuse", "governance:timeout")


def test_an_analysis_that_breaks_refuses() -> None:
    def broken(_: str) -> BashFacts:
        raise ValueError("bug")

    decision = decide(lambda: Policy(), Bash("ls"), SCOPE, no_machine(broken))
    assert (decision.verdict, decision.rule_id) == ("refuse", "governance:unavailable")


def test_a_command_that_does_too_much_refuses() -> None:
    many = tuple(Derived(FilesystemWrite(f"/ws/{n}")) for n in range(5001))
    decision = judged([], Bash("x"), BashFacts("x", derived=many))
    assert (decision.verdict, decision.rule_id) == ("refuse", "governance:malformed_event")


def test_a_kind_may_be_refused_by_default() -> None:
    defaults = {Kind.CUSTOM: Verdict.REFUSE}
    assert judged([], defaults=defaults).rule_id == DEFAULT
    assert judged([rule("A", "log")], defaults=defaults).verdict == "allow"
    assert judged([], FilesystemWrite("/x"), defaults=defaults).verdict == "allow"


def test_the_default_holds_for_what_a_command_causes() -> None:
    facts = BashFacts("curl a.com", derived=(Derived(NetworkRequest("a.com")),))
    decision = judged(
        [], Bash("curl a.com"), facts, defaults={Kind.NETWORK_REQUEST: Verdict.REFUSE}
    )
    assert decision.rule_id == DEFAULT


# What a shell command causes.

NO_TMP = rule("T", "refuse", "filesystem_write", {"glob": "/tmp/**"})
NO_CARGO = rule("C", "refuse", "process_spawn", {"binary": "cargo"})
NO_EVIL = rule("N", "refuse", "network_request", {"host": "evil.com"})


@pytest.mark.parametrize(
    ("derived", "reported"),
    [
        (Derived(FilesystemWrite("/tmp/x")), "T"),
        (Derived(FilesystemWrite("../tmp/x")), "T"),
        (Derived(FilesystemWrite("$X/x"), frozenset({"path"})), "T"),
        (Derived(FilesystemWrite("x")), None),
        (Derived(ProcessSpawn("cargo", ("build",))), "C"),
        (Derived(ProcessSpawn("$X"), frozenset({"binary"})), "C"),
        (Derived(ProcessSpawn("env", ("$X",)), frozenset({"args.0"})), "C"),
        (Derived(ProcessSpawn("ls", ("$X",)), frozenset({"args.0"})), None),
        (Derived(NetworkRequest("evil.com")), "N"),
        (Derived(NetworkRequest("$H"), frozenset({"host"})), "N"),
    ],
    ids=str,
)
def test_derived_actions_meet_the_rules_of_their_kind(
    derived: Derived, reported: str | None
) -> None:
    facts = BashFacts("x", derived=(derived,))
    assert judged([NO_TMP, NO_CARGO, NO_EVIL], Bash("x", "/ws"), facts).rule_id == reported


def test_derived_writes_start_where_the_command_does() -> None:
    facts = BashFacts("x", derived=(Derived(FilesystemWrite("x")),))
    assert judged([NO_TMP], Bash("x", "/tmp"), facts).rule_id == "T"


@pytest.mark.parametrize(
    ("path", "caught"),
    [("l", True), ("l/x", True), ("./l/../l/x", True), ("lx", False), ("x", False)],
)
def test_writing_through_a_link_of_the_same_command_is_not_known(path: str, caught: bool) -> None:
    writes = FilesystemWrite("l", Op.SYMLINK), FilesystemWrite(path, Op.CREATE)
    facts = BashFacts("x", derived=tuple(Derived(write) for write in writes))
    assert (judged([NO_TMP], Bash("x", "/ws"), facts).rule_id == "T") is caught


@pytest.mark.parametrize("known", [NO_TMP, NO_CARGO, NO_EVIL], ids=lambda rule: rule.id)
def test_a_command_that_nobody_can_read_may_do_anything(known: Rule) -> None:
    facts = BashFacts("x", unanalysable="a riddle")
    assert judged([known], Bash("x"), facts).rule_id == known.id


def test_unless_a_rule_says_what_happens_to_such_commands() -> None:
    facts = BashFacts("x", unanalysable="a riddle")
    says = rule("U", "escalate", "bash", {"unanalyzable": True})
    assert judged([NO_TMP, NO_CARGO, NO_EVIL, says], Bash("x"), facts).rule_id == "U"
    elsewhere = rule("U", "escalate", "bash", {"unanalyzable": True}, namespace="installation/9")
    assert judged([NO_TMP, elsewhere], Bash("x"), facts).rule_id == "T"


SHELL = [
    ("raw text", {"command_substring": "rm -rf"}, "rm -rf /", (), True),
    ("dots are literal", {"command_substring": "a.sh"}, "./a.sh", (), True),
    ("the older name", {"command_regex": "rm -rf"}, "rm -rf /", (), True),
    ("decoded text", {"command_substring": "rm  -rf"}, "r''m -r\\f", (("rm", "-rf"),), True),
    ("another text", {"command_substring": "rm -rf"}, "rm -r -f", (("rm", "-r", "-f"),), False),
    ("a prefix", {"argv_prefix": ["git", "push"]}, "", (("git", "push", "x"),), True),
    ("by its path", {"argv_prefix": ["git", "push"]}, "", (("/bin/git", "push"),), True),
    ("the second command", {"argv_prefix": ["rm"]}, "", (("ls",), ("rm", "x")), True),
    ("a choice", {"argv_prefix": ["git", ["pull", "push"]]}, "", (("git", "push"),), True),
    ("global options", {"argv_prefix": ["git", "push"]}, "", (("git", "-C", "x", "push"),), True),
    ("another prefix", {"argv_prefix": ["git", "push"]}, "", (("git", "log", "push"),), False),
    ("too short", {"argv_prefix": ["git", "push"]}, "", (("git",),), False),
    ("an unknown program", {"argv_prefix": ["git", "push"]}, "", ((None, "push"),), True),
    ("an unknown word", {"argv_prefix": ["git", "push"]}, "", (("git", None),), True),
    ("an unknown word before", {"argv_prefix": ["rm", "-r", "/"]}, "", (("rm", None, "x"),), True),
    ("a word that differs before", {"argv_prefix": ["rm", "-r"]}, "", (("rm", "x", None),), False),
    ("flags", {"argv_contains_all": ["--force"]}, "", (("git", "push", "--force"),), True),
    ("a flag with a value", {"argv_contains_all": ["--x"]}, "", (("a", "--x=1"),), True),
    ("a longer flag", {"argv_contains_all": ["--force"]}, "", (("a", "--forced"),), False),
    ("bundled letters", {"argv_contains_all": ["-f"]}, "", (("git", "push", "-uf"),), True),
    ("a wildcard", {"argv_contains_all": ["+*"]}, "", (("git", "push", "o", "+main"),), True),
    ("alternatives", {"argv_contains_all": [["-f", "--force"]]}, "", (("x", "--force"),), True),
    ("only one of two", {"argv_contains_all": ["-a", "-b"]}, "", (("x", "-a"),), False),
    ("an unknown flag", {"argv_contains_all": ["-f"]}, "", (("x", None),), True),
    ("in two commands", {"argv_prefix": ["a"], "argv_contains_all": ["-f"]}, "",
     (("a", "x"), ("b", "-f")), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("matcher", "text", "commands", "fires"), [row[1:] for row in SHELL], ids=[r[0] for r in SHELL]
)
def test_rules_about_words(
    matcher: Any, text: str, commands: tuple[tuple[str | None, ...], ...], fires: bool
) -> None:
    decoded = "\n".join(" ".join(word or "" for word in words) for words in commands)
    facts = BashFacts(decoded, tuple(SimpleCommand(words) for words in commands))
    decision = judged([rule("A", "refuse", "bash", matcher)], Bash(text or "x"), facts)
    assert (decision.rule_id == "A") is fires


def test_what_is_not_known_only_counts_for_rules_that_block() -> None:
    facts = BashFacts("x", (SimpleCommand((None,)),))
    noting = rule("A", "warn", "bash", {"argv_prefix": ["rm"]})
    assert judged([noting], Bash("x"), facts).verdict == "allow"


@pytest.mark.parametrize("key", ["unanalyzable", "opaque_code"])
def test_facts_of_their_own(key: str) -> None:
    fact = {"unanalyzable": "unanalysable", "opaque_code": "opaque_code"}[key]
    about = rule("A", "warn", "bash", {key: True})
    assert judged([about], Bash("x"), BashFacts("x", **{fact: "why"})).rule_id == "A"  # type: ignore[arg-type]
    assert judged([about], Bash("x"), BashFacts("x")).rule_id is None


# Registered evaluators.


def says(opinion: Opinion | None) -> dict[str, Callable[[Action, Scope], Opinion | None]]:
    return {"X": lambda action, _: opinion if action.kind is Kind.FILESYSTEM_WRITE else None}


def rewriting(path: str) -> dict[str, Callable[[Action, Scope], Opinion | None]]:
    """Sends every write that does not go to ``path`` there."""

    def evaluator(action: Action, _: Scope) -> Opinion | None:
        if isinstance(action, FilesystemWrite) and action.path != path:
            return Opinion(Verdict.MODIFY, "moved", FilesystemWrite(path))
        return None

    return {"X": evaluator}


WRITE = FilesystemWrite("/home/x")


def test_modify_hands_back_the_rewritten_action() -> None:
    decision = judged([], WRITE, evaluators=rewriting("/ws/x"))
    assert (decision.verdict, decision.rule_id) == ("modify", "X")
    assert decision.rewritten == FilesystemWrite("/ws/x")
    assert decision.is_allowed


@pytest.mark.parametrize("severity", ["escalate", "refuse"])
def test_a_rewritten_action_must_itself_be_allowed(severity: str) -> None:
    about = rule("T", severity, "filesystem_write", {"glob": "/tmp/**"})
    decision = judged([about], WRITE, evaluators=rewriting("/tmp/x"))
    assert (decision.verdict, decision.rule_id, decision.rewritten) == ("refuse", "X", None)
    assert "because T" in str(decision.reason)


def test_a_rewritten_action_may_warn() -> None:
    about = rule("T", "warn", "filesystem_write", {"glob": "/tmp/**"})
    decision = judged([about], WRITE, evaluators=rewriting("/tmp/x"))
    assert decision.verdict == "modify"
    assert [match.rule_id for match in decision.matched] == ["X", "T"]


def test_rewriting_never_saves_what_a_rule_forbids() -> None:
    about = rule("H", "refuse", "filesystem_write", {"glob": "/home/**"})
    assert judged([about], WRITE, evaluators=rewriting("/ws/x")).rule_id == "H"
    about = rule("H", "escalate", "filesystem_write", {"glob": "/home/**"})
    assert judged([about], WRITE, evaluators=rewriting("/ws/x")).verdict == "escalate"


@pytest.mark.parametrize(
    "opinion",
    [
        Opinion(Verdict.MODIFY, "why"),
        Opinion(Verdict.MODIFY, "why", Custom("x")),
        Opinion(Verdict.MODIFY, "why", FilesystemWrite("/ws/again")),
    ],
    ids=["nothing", "another kind", "again and again"],
)
def test_a_rewriting_that_leads_nowhere_refuses(opinion: Opinion) -> None:
    assert judged([], WRITE, evaluators=says(opinion)).verdict == "refuse"


def test_ask_reduces_to_refuse() -> None:
    decision = judged([], WRITE, evaluators=says(Opinion(Verdict.ASK, "who knows")))
    assert (decision.verdict, decision.rule_id, decision.reason) == ("refuse", "X", "who knows")


@pytest.mark.parametrize("verdict", ["warn", "escalate", "refuse"])
def test_other_opinions_count_like_rules(verdict: str) -> None:
    decision = judged([], WRITE, evaluators=says(Opinion(Verdict(verdict), "why")))
    assert (decision.verdict, decision.rule_id) == (verdict, "X")


def test_an_opinion_never_weakens_a_rule() -> None:
    about = rule("H", "refuse", "filesystem_write", {"glob": "/home/**"})
    decision = judged([about], WRITE, evaluators=says(Opinion(Verdict.ALLOW, "fine")))
    assert (decision.verdict, decision.rule_id) == ("refuse", "H")


def test_an_evaluator_that_breaks_refuses() -> None:
    def broken(_: Action, __: Scope) -> Opinion:
        raise KeyError("bug")

    assert judged([], WRITE, evaluators={"X": broken}).rule_id == "governance:unavailable"
