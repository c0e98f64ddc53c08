"""Rules that need the ledger are needed too: without one, the test that names it fails."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from coven.github.models import Permission
from coven.store.engine import Store
from coven.values import TaskState
from tests.integration import test_receiver_conversation as talk
from tests.integration import test_receiver_events as events
from tests.integration import test_receiver_work as work
from tests.integration.receiver_kit import Bench
from tests.support.mutations import Mutation

Scenario = Callable[[Bench], None]


@dataclass(frozen=True)
class Removal:
    """``where``: the function that holds the rule."""

    mutation: Mutation
    where: str
    scenario: Scenario


def without(rule: str, where: str, old: str, new: str, scenario: Scenario) -> Removal:
    """``where``: ``module.Class.function`` or ``module.function``."""
    return Removal(Mutation(rule, where.split(".")[0], old, new), where, scenario)


def taken_back(bench: Bench) -> None:
    events.test_a_wish_that_was_taken_back_stays_so_whatever_arrives_late(
        bench, "issues.labeled", "unlabeled", "labeled", "unlabeled:3:coven:fix", 3
    )


def pause(bench: Bench) -> None:
    events.test_a_pause_is_said_once_and_ended_by_a_maintainer(bench)


def elsewhere(bench: Bench) -> None:
    body = events.payload("repository.transferred")
    events.test_work_ends_where_nothing_may_be_done_any_more(bench, "repository", body)


def asked_before_closing(bench: Bench) -> None:
    said = events.said("@familiar review", comment__created_at="2026-01-01T09:30:00Z")
    task = bench.task(bench.deliver("issue_comment", said))
    bench.deliver("pull_request", events.payload("pull_request.opened", action="closed"))
    assert events.state(bench, task) is TaskState.QUEUED


def writers_only(bench: Bench) -> None:
    labelled = events.payload("issues.labeled", sender=work.STRANGER)
    assert work.ignored(bench.deliver("issues", labelled)) == "actor_lacks_write"


SEEN, ONE, NOTED = "recorder.Recorder._seen", "recorder.Recorder._one", "recorder.Recorder._noted"
REMOVALS = [
    without(
        "late wishes",
        SEEN,
        "for prefix in intent.voided_by:",
        "for prefix in ():",
        taken_back,
    ),
    without(
        "a slip burns no comment",
        SEEN,
        "if intent.edited and not _ran(task):",
        "if False:",
        events.test_an_edit_runs_the_command_that_had_not_been_understood_once,
    ),
    without(
        "what ran once stays so",
        SEEN,
        "if intent.edited and not _ran(task):",
        "if intent.edited:",
        events.test_an_edit_runs_the_command_that_had_not_been_understood_once,
    ),
    without(
        "two hooks",
        SEEN,
        "if same is not None and not",
        "if False and not",
        lambda bench: work.test_second_hook_with_its_own_id_makes_no_second_task(
            bench, "completed"
        ),
    ),
    without(
        "one comment, one command",
        SEEN,
        "if task.delivery_id != received.id or task.semantic_key == intent.semantic_key:",
        "if False:",
        work.test_comment_is_handled_once_whatever_the_body_of_its_second_delivery,
    ),
    without(
        "deleted before it arrived",
        SEEN,
        "if intake.was_ignored(tenant, tx, repo, gone, now - MARK_MEMORY):",
        "if False:",
        work.test_comment_deleted_before_it_arrived_starts_nothing,
    ),
    without(
        "a later cancel",
        SEEN,
        "if stopped is not None:",
        "if False:",
        talk.test_a_command_that_arrives_after_a_later_cancel_is_cancelled,
    ),
    without(
        "stale head",
        "recorder.Recorder._stale",
        'return "stale_head"',
        "return None",
        work.test_older_head_that_arrives_late_is_stale,
    ),
    without(
        "reviewed head",
        "recorder.Recorder._stale",
        "earlier.state in (TaskState.COMPLETED, TaskState.FAILED)",
        "False",
        work.test_same_head_is_not_reviewed_twice,
    ),
    without(
        "newer head",
        ONE,
        "self._stops.supersede_older(tx, new, settled)",
        "pass",
        work.test_newer_head_supersedes_older_automatic_work_and_closes_its_check,
    ),
    without(
        "an approval settles what waits",
        ONE,
        'if "approved_sha" in task.payload and item.show:',
        "if False:",
        work.test_approved_commit_is_a_new_review_and_answers_what_waited,
    ),
    without("pause", ONE, "if why is not None:", "if False:", pause),
    without(
        "facts are learned",
        NOTED,
        "elif item.installation_id is not None:",
        "elif False:",
        events.test_a_renamed_account_is_learned_once_and_a_late_event_does_not_undo_it,
    ),
    without(
        "plans are learned",
        NOTED,
        "plans.learn(tx, item.fact, now)",
        "pass",
        events.test_a_purchase_is_verified_by_its_own_secret_which_opens_nothing_else,
    ),
    without("effects", NOTED, "for effect in item.effects:", "for effect in ():", elsewhere),
    without(
        "whose repository it is",
        "recorder.Recorder.settle",
        "if seen is not None and received",
        "if False and received",
        events.test_every_event_tells_whose_repository_it_is,
    ),
    without(
        "said once",
        "breaker.Breaker.notice",
        'if task.payload.get("paused") and',
        "if False and",
        pause,
    ),
    without(
        "a maintainer ends a pause",
        "breaker.Breaker.paused",
        "since = intake.resumed_at(tenant, tx, began, repo, thread) or began",
        "since = began",
        pause,
    ),
    without(
        "only this thread",
        "breaker.Breaker.paused",
        "intake.asked_since(tenant, tx, since, repo, thread)",
        "0",
        pause,
    ),
    without(
        "ended in time",
        "stops.pointless",
        "if cancel.at is not None and task.source_at > cancel.at:",
        "if False:",
        work.test_closing_that_is_delivered_late_spares_what_came_after,
    ),
    without(
        "only what the label asked for",
        "stops.pointless",
        "return task.reason == cancel.trigger and",
        "return True or",
        events.test_taking_a_label_back_ends_what_it_asked_for_and_nothing_else,
    ),
    without(
        "only what the comments asked for",
        "stops.pointless",
        "return task.comment_id in cancel.comments",
        "return True",
        events.test_a_resolved_thread_ends_what_its_comments_asked_for,
    ),
    without(
        "automatic reviews only",
        "stops.pointless",
        "return task.automatic and task.lane is Lane.REVIEW",
        "return True",
        asked_before_closing,
    ),
    without(
        "only these repositories",
        "stops.Stops._repos_gone",
        "if task.repo_id in gone.repo_ids:",
        "if True:",
        elsewhere,
    ),
    without(
        "rights that changed",
        "receiver.Receiver._rights_changed",
        "return intake.rights_changed_at(",
        "return None and intake.rights_changed_at(",
        events.test_rights_are_looked_up_again_after_an_event_that_tells_of_a_change,
    ),
    without(
        "listed bots",
        "receiver.Receiver._rights",
        "if actor is not None and actor.id in",
        "if False and actor.id in",
        events.test_a_listed_bot_starts_work_and_no_other_does,
    ),
    without(
        "the Marketplace's secret",
        "receiver.Receiver._receive",
        "if request.event == MARKETPLACE else self._secrets",
        "if True else self._secrets",
        events.test_a_purchase_is_verified_by_its_own_secret_which_opens_nothing_else,
    ),
    without(
        "writers only",
        "trust.admit",
        "if rights.confirmed and intent.needs is Needs.WRITE and not writes:",
        "if False:",
        writers_only,
    ),
    without(
        "strangers",
        "trust.admit",
        "and scope is TrustScope.EXTERNAL:",
        "and False:",
        lambda bench: work.test_strangers_get_no_answer(bench, "status"),
    ),
    without(
        "strangers' pushes",
        "trust._automatic",
        'if intent.external == "ask":',
        "if False:",
        lambda bench: work.test_fork_waits_for_a_maintainer_whoever_opened_it(bench, work.FORK),
    ),
    without(
        "words for what waits",
        "followups.resolve",
        "if len(routed) == 1 and routed[0].answer is not None:",
        "if False:",
        events.test_unknown_words_are_taken_by_the_task_that_waits_for_them,
    ),
]
ALSO_AS = {"trust.admit": "receiver.admit", "followups.resolve": "receiver.resolve"}


def fresh(store: Store) -> Bench:
    bench = Bench(store)
    bench.github.rights["stranger"] = Permission("read", "read", 9)
    return bench


@pytest.mark.parametrize("scenario", [asked_before_closing, writers_only], ids=lambda s: s.__name__)
def test_with_every_rule_the_scenarios_of_this_page_hold(
    scenario: Scenario, sqlite_store: Store
) -> None:
    scenario(fresh(sqlite_store))


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda r: r.mutation.rule.replace(" ", "-"))
def test_a_missing_rule_is_noticed(
    removal: Removal, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"webhooks.{removal.mutation.module}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    mutated = importlib.util.module_from_spec(spec)
    exec(compile(removal.mutation.mutated(), name, "exec"), mutated.__dict__)
    for where in {removal.where, ALSO_AS.get(removal.where, removal.where)}:
        module, *owners, attribute = where.split(".")
        owner: object = importlib.import_module(f"webhooks.{module}")
        source: object = mutated
        for step in owners:
            owner, source = getattr(owner, step), getattr(source, step)
        monkeypatch.setattr(owner, attribute, getattr(source, attribute))
    with pytest.raises((AssertionError, KeyError, ValueError, StopIteration)):
        removal.scenario(fresh(sqlite_store))
