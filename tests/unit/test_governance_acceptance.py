"""What must hold before the rules engine is called done, and the test that shows each part.

``ACCEPTANCE`` is the list of what is promised; ``WEAKNESSES`` names, for each known weakness of the
design that this follows, what a test tries and this engine withstands. A name that leads nowhere
fails, so the lists stay true.
"""

from __future__ import annotations

import ast
import functools
import time
from pathlib import Path

import pytest

from coven.governance import signing
from coven.governance.actions import Bash, FilesystemWrite
from coven.governance.bash import analyse
from coven.governance.evaluate import decide
from coven.governance.world import Scope, this_machine
from tests.bench import governance as bench
from tests.unit.test_governance_keys import KEYS, ROW, SIGNER

TESTS = Path(__file__).parents[1]

ACCEPTANCE: dict[str, tuple[str, ...]] = {
    "1 signatures: the vector, and each signed member": (
        "unit/test_governance_keys.py::test_the_published_vector_holds",
        "unit/test_governance_keys.py::test_a_change_of_any_signed_member_breaks_the_signature",
        "unit/test_governance_acceptance.py::test_the_version_is_signed_too",
    ),
    "2 each weakness has its test": (
        "unit/test_governance_acceptance.py::test_every_weakness_has_a_test",
    ),
    "3 canonical forms are idempotent, and spellings lead nowhere": (
        "unit/test_governance_canonical.py::test_a_folded_path_is_folded",
        "unit/test_governance_canonical.py::test_a_canonical_host_is_canonical",
        "unit/test_governance_canonical.py::test_canonical_json_is_canonical",
        "unit/test_bash_words.py::test_quoted_arguments_are_read_back_exactly",
        "unit/test_bash_evasion.py::test_no_spelling_gets_past_its_rule",
        "unit/test_bash_evasion.py::test_the_corpus_is_large_enough",
        "unit/test_governance_corpus.py::test_trick",
        "unit/test_governance_corpus.py::test_the_corpus_is_large_enough",
        "unit/test_bash_mutations.py::test_without_this_step_a_case_gets_through",
        "unit/test_governance_mutations.py::test_a_missing_step_is_noticed",
    ),
    "4 the chain: edit, delete, insert, reorder, truncate, rewritten end, one-successor repair": (
        "integration/test_governance_chain.py::test_every_change_is_found_at_its_first_row",
        "integration/test_governance_chain.py::test_a_cut_end_is_found",
        "integration/test_governance_chain.py::test_a_cut_end_with_its_head_is_found_by_the_anchor",
        "integration/test_governance_chain.py"
        "::test_an_end_rewritten_with_the_stolen_key_is_found_by_the_anchor",
    ),
    "5 eight processes, one contiguous chain": (
        "integration/test_governance_chain.py::test_eight_processes_make_one_contiguous_chain",
    ),
    "6 faults never yield an effect": (
        "integration/test_governance_gate.py::test_a_fault_of_the_record_never_yields_an_effect",
        "integration/test_governance_mcp.py::test_damage_is_never_an_allowed_answer",
        "unit/test_governance_evaluate.py::test_a_policy_that_can_not_be_had_refuses",
        "unit/test_hook.py::test_whatever_goes_wrong_is_exit_2",
        "unit/test_hook.py::test_without_a_journal_nothing_is_allowed",
    ),
    "7 the hook under both harnesses": (
        "unit/test_hook.py::test_the_command_speaks_both_languages",
        "unit/test_hook.py::test_the_canary_ends_with_2_only_when_the_hook_is_at_work",
        "integration/test_tool_rules.py::test_a_session_is_stopped_at_its_rules_and_the_chain_knows",
    ),
    "8 HTTP: replay, skew, host, method, body, epoch": (
        "integration/test_api_governance.py"
        "::test_w16_a_request_that_is_not_exactly_what_was_signed_is_refused_alike",
        "integration/test_api_governance.py"
        "::test_w16_a_replayed_request_is_refused_also_by_another_process",
        "integration/test_api_governance.py::test_the_clock_may_be_off_by_so_much",
        "integration/test_api_governance.py::test_a_change_of_rules_that_moved_on_conflicts",
    ),
    "9 approvals: once, by writers who are no bots, under a refusal that came later": (
        "integration/test_escalations.py"
        "::test_an_approval_lets_the_task_go_on_and_the_action_happen_once",
        "integration/test_escalations.py::test_outsiders_and_bots_decide_nothing",
        "integration/test_escalations.py::test_a_refusal_that_is_added_after_the_approval_wins",
        "e2e/test_governance.py::test_an_escalated_task_waits_and_goes_on_when_a_person_approves",
    ),
    "10 quick enough": (
        "unit/test_governance_acceptance.py::test_a_check_with_200_rules_is_quick",
        "unit/test_hook.py::test_it_answers_quickly",
    ),
}

WEAKNESSES: dict[str, tuple[str, ...]] = {
    "W1 an edited rule is skipped, so the action is allowed": (
        "unit/test_governance_head.py::test_w1_an_edited_rule_is_tampering_and_never_skipped",
        "integration/test_governance_gate.py::test_w1_an_edit_by_hand_refuses_everything_at_once",
    ),
    "W2 deleted rows, an older row or an older database go unseen": (
        "unit/test_governance_head.py::test_w2_a_deleted_rule_is_found",
        "unit/test_governance_head.py::test_w2_an_older_signed_row_is_found",
        "integration/test_governance_gate.py::test_w2_an_older_database_is_a_rollback",
    ),
    "W3 without a key, or with another key file, nothing is verified": (
        "unit/test_governance_keys.py::test_w3_signer_and_verifier_read_the_same_folder",
        "integration/test_governance_gate.py"
        "::test_w3_without_the_operators_public_key_nothing_is_allowed",
    ),
    "W4 enabling without signing makes rules inert, and they are shown as active": (
        "integration/test_governance_admin.py"
        "::test_w4_a_seed_that_somebody_enabled_by_hand_is_no_working_rule",
        "integration/test_governance_admin.py"
        "::test_install_defaults_signs_all_in_one_transaction_and_again_changes_nothing",
    ),
    "W5 commands are compared as text": (
        "unit/test_bash_evasion.py::test_no_spelling_gets_past_its_rule",
    ),
    "W6 kinds do not cross": (
        "unit/test_governance_evaluate.py::test_derived_actions_meet_the_rules_of_their_kind",
    ),
    "W7 paths are compared as text": (
        "unit/test_governance_corpus.py::test_trick",
        "unit/test_governance_canonical.py::test_links_are_asked_anew_every_time",
    ),
    "W8 hosts are compared with their port, case and root dot": (
        "unit/test_governance_canonical.py::test_every_spelling_of_an_address_is_that_address",
        "unit/test_governance_seeds.py::test_what_engines_that_compare_texts_miss",
    ),
    "W9 programs are compared as given, and a disk that can't be asked has room": (
        "unit/test_governance_seeds.py::test_cargo_needs_a_disk_with_room",
        "unit/test_governance_seeds.py::test_what_engines_that_compare_texts_miss",
    ),
    "W10 an escalation shadows a refusal, and nobody can approve": (
        "unit/test_governance_evaluate.py::test_the_most_severe_wins_and_the_lowest_id_is_reported",
        "integration/test_escalations.py"
        "::test_an_approval_lets_the_task_go_on_and_the_action_happen_once",
    ),
    "W11 namespace, agent and folder are ignored": (
        "integration/test_governance_gate.py::test_w11_a_rule_of_one_installation_binds_no_other",
        "integration/test_api_governance.py::test_w11_a_check_for_a_task_binds_the_tasks_namespace",
        "unit/test_governance_evaluate.py::test_derived_writes_start_where_the_command_does",
    ),
    "W12 there is no list of what is allowed": (
        "integration/test_governance_gate.py::test_w12_requests_may_be_refused_by_default",
        "unit/test_governance_evaluate.py::test_a_kind_may_be_refused_by_default",
    ),
    "W13 the hook lets pass what it does not understand": (
        "unit/test_hook.py::test_an_event_that_is_not_exact_is_refused",
        "unit/test_hook.py::test_whatever_goes_wrong_is_exit_2",
        "unit/test_hook.py::test_the_deadline_is_exit_2",
    ),
    "W14 the links of the chain do not accumulate": (
        "integration/test_governance_chain.py::test_every_change_is_found_at_its_first_row",
    ),
    "W15 the record holds hashes only": (
        "integration/test_governance_gate.py"
        "::test_w15_the_record_holds_action_and_verdict_without_secrets",
    ),
    "W16 a request can be sent twice": (
        "integration/test_api_governance.py"
        "::test_w16_a_replayed_request_is_refused_also_by_another_process",
        "integration/test_governance_worker.py"
        "::test_w16_a_nonce_counts_once_for_all_processes_and_is_forgotten",
    ),
    "W17 rules are kept until the process restarts": (
        "integration/test_governance_gate.py::test_w17_a_change_by_another_process_binds_at_once",
    ),
    "W18 a variable opens the gate, and whoever asks says who they are": (
        "integration/test_governance_gate.py::test_w18_no_environment_variable_opens_the_gate",
        "integration/test_governance_mcp.py::test_a_real_client_asks_lists_and_changes_nothing",
    ),
    "W19 a signature has no purpose": (
        "unit/test_governance_keys.py::test_w19_a_signature_is_worth_nothing_for_another_purpose",
    ),
    "W20 effects are guarded by convention": (
        "unit/test_governance_backstop.py"
        "::test_w20_programs_and_connections_outside_the_seam_are_stopped",
        "unit/test_effects_lint.py::test_effects_go_through_the_seam",
    ),
}


@functools.cache
def names_in(name: str) -> frozenset[str]:
    tree = ast.parse((TESTS / name).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("what", [*ACCEPTANCE, *WEAKNESSES])
def test_what_is_promised_has_a_test(what: str) -> None:
    for place in (ACCEPTANCE | WEAKNESSES)[what]:
        file, _, name = place.partition("::")
        assert name in names_in(file), f"{what}: {place} is not there"


def test_every_weakness_has_a_test() -> None:
    assert [name.split()[0] for name in WEAKNESSES] == [f"W{n}" for n in range(1, 21)]


def test_the_version_is_signed_too() -> None:
    value = signing.rule_value(ROW)
    assert set(value) == {
        "v", "id", "kind", "matcher", "severity", "reason", "namespace", "created_by", "enabled",
        "revision",
    }  # fmt: skip
    signature = SIGNER.sign(signing.rule_message(ROW))
    other = signing.message(signing.RULE_DOMAIN, value | {"v": 2})
    assert not KEYS.verify(SIGNER.key_id, signature, other)


@pytest.mark.parametrize("action", [Bash("cd x && make test"), FilesystemWrite("/srv/sessions/x")])
def test_a_check_with_200_rules_is_quick(action: Bash | FilesystemWrite) -> None:
    policy, world = bench.policy(200), this_machine(analyse)
    took = []
    for _ in range(40):  # processor time: other work on this machine does not count
        before = time.thread_time()
        decide(lambda: policy, action, Scope(cwd="/srv/sessions", workspace="/srv/sessions"), world)
        took.append(time.thread_time() - before)
    assert sorted(took)[37] < 0.005
