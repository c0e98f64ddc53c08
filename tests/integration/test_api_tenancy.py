"""A tenant's token sees its own installation; everything else does not exist for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from coven.api_tokens import TokenScope
from coven.store import tasks
from coven.store.engine import Store
from coven.values import InstallationId, TaskState
from tests.integration.api_kit import NARROW, OTHER_NARROW, REPOS, SERVICE, Api, shared_api
from tests.ledger import OTHER, TENANT, look, put
from webhooks.api.operations import OPERATIONS, Operation

NAMES = [operation.name for operation in OPERATIONS if not operation.signed]
"""What tokens open; the operator's own operations are in test_api_governance.py."""
BY_NAME = {operation.name: operation for operation in OPERATIONS}
ABOUT_ONE = [
    name
    for name in NAMES
    # Shipped rules bind everybody; whose other rules are is asked in test_api_governance.py.
    if (BY_NAME[name].parameters or name == "revoke_memory") and name != "show_rule"
]
TRACES = {
    tenant: (str(REPOS[tenant]), f"Title of {tenant}", f"delivery-{tenant}", f"Text of {tenant}")
    for tenant in (TENANT, OTHER)
}


@pytest.fixture(scope="module")
def shared(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """For tests whose point is what is refused."""
    with shared_api(_sqlite_file, tmp_path_factory.mktemp("tenancy")) as made:
        yield made


@pytest.fixture
def api(sqlite_store: Store) -> Api:
    return Api(sqlite_store)


def ask(api: Api, operation: Operation, token: str | None, about: InstallationId) -> TestResponse:
    """A correct request about what belongs to ``about``."""
    entry = api.entries[about]
    ids = {
        "task_id": api.tasks[about],
        "delivery_id": f"delivery-{about}",
        "entry_id": entry.id,
        "rule_id": "R001",
    }
    path = re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], operation.path)
    if operation.method == "GET":
        return api.get(path, token)
    bodies = {
        "revoke_memory": {"repo": str(REPOS[about]), "key": entry.key},
        "approve_memory": {"text_hash": entry.text_hash},
        "deny_memory": {"text_hash": entry.text_hash},
        "share_memory": {"text_hash": entry.text_hash},
        "check_action": {"kind": "bash", "command": "ls"},
    }
    return api.post(path, token, bodies.get(operation.name, {}))


def unknown(api: Api, operation: Operation, token: str) -> TestResponse:
    """The same about what nobody has."""
    ids = {"task_id": "0" * 32, "delivery_id": "nobody", "entry_id": "M-00000000", "rule_id": "R0"}
    path = re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], operation.path)
    if operation.method == "GET":
        return api.get(path, token)
    bodies = {
        "revoke_memory": {"repo": "no/body", "key": "repo/no/body/conventions/tests"},
        "approve_memory": {"text_hash": "0" * 64},
        "deny_memory": {"text_hash": "0" * 64},
        "share_memory": {"text_hash": "0" * 64},
    }
    return api.post(path, token, bodies.get(operation.name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_another_tenant_is_in_an_answer(shared: Api, name: str) -> None:
    operation = BY_NAME[name]
    for mine, other in ((TENANT, OTHER), (OTHER, TENANT)):
        text = ask(shared, operation, shared.admin(mine), mine).get_data(as_text=True)
        assert not [trace for trace in TRACES[other] if trace in text]


@pytest.mark.parametrize("name", ABOUT_ONE)
def test_what_is_another_tenants_is_answered_as_what_nobody_has(shared: Api, name: str) -> None:
    operation = BY_NAME[name]
    theirs = ask(shared, operation, shared.admin(TENANT), OTHER)
    nobodys = unknown(shared, operation, shared.admin(TENANT))
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.data == nobodys.data
    assert dict(theirs.headers) == dict(nobodys.headers)
    # and the request itself was a good one
    assert ask(shared, operation, shared.admin(OTHER), OTHER).status_code in {200, 409}


@pytest.mark.parametrize("name", NAMES)
def test_a_tenant_cannot_name_another_installation(shared: Api, name: str) -> None:
    operation = BY_NAME[name]
    path = re.sub(r"\{\w+\}", "0", operation.path)
    if "installation_id" not in operation.query.model_fields:
        return  # asks nothing of an installation, or names it in the body
    given, token = f"{path}?installation_id={OTHER}", shared.admin(TENANT)
    decides = operation.name in {"approve_memory", "deny_memory", "share_memory"}
    body = {"text_hash": "0" * 64} if decides else {}
    if operation.method == "GET":
        answer = shared.get(given, token)
    else:
        answer = shared.post(given, token, body)
    assert answer.status_code == 403
    assert answer.json["error"] == "other_installation"


def test_revoking_for_another_installation_by_the_body_is_refused(api: Api) -> None:
    body = {"installation_id": int(OTHER), "prefix": f"tenant/{OTHER}"}
    answer = api.post("/memory/revoke", api.admin(TENANT), body)
    assert (answer.status_code, answer.json["error"]) == (403, "other_installation")


def test_a_prefix_of_another_installation_is_refused(api: Api) -> None:
    answer = api.post("/memory/revoke", api.admin(TENANT), {"prefix": f"tenant/{OTHER}"})
    assert (answer.status_code, answer.json["error"]) == (400, "other_owner")


def test_without_a_token_every_operation_says_the_same(api: Api) -> None:
    seen = set()
    for operation in (BY_NAME[name] for name in NAMES):
        api.clock.advance(61)
        answer = ask(api, operation, None, TENANT)
        assert answer.status_code == 401
        assert answer.json["error"] == "unauthorized"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        seen.add(answer.data)
    assert len(seen) == 1
    assert look(api.store, api.tasks[TENANT]).cancel_requested_at is None


@pytest.mark.parametrize("name", NAMES)
def test_a_service_token_sees_every_installation(shared: Api, name: str) -> None:
    operation = BY_NAME[name]
    for about in (TENANT, OTHER):
        answer = ask(shared, operation, shared.admin(None), about)
        if answer.status_code == 400:
            # of these there is no view over all
            assert answer.json["error"] == "installation_id_required"
            continue
        assert answer.status_code in {200, 409}
    if operation.name in {"list_tasks", "list_deliveries", "usage"}:
        text = answer.get_data(as_text=True)
        assert all(str(REPOS[tenant]) in text for tenant in (TENANT, OTHER))
        one = shared.get(f"{operation.path}?installation_id={TENANT}", SERVICE)
        assert str(REPOS[OTHER]) not in one.get_data(as_text=True)


def test_a_token_of_one_repository_sees_nothing_else_of_its_installation(api: Api) -> None:
    hidden = put(api.store, repo_id=9, repo_name="hidden", title="Hidden work")
    for path in (
        "/tasks",
        "/tasks?q=Hidden",
        "/deliveries",
        "/usage",
        "/routing",
        "/memory",
        "/audit",
    ):
        answer = api.get(path, NARROW)
        assert answer.status_code == 200, answer.json
        assert "idden" not in answer.get_data(as_text=True)
    assert api.get(f"/tasks/{hidden}", NARROW).status_code == 404
    assert api.get(f"/tasks/{api.tasks[TENANT]}", NARROW).status_code == 200
    assert api.get("/memory?repo=octo/hidden", NARROW).json["memory"] == []
    assert len(api.get("/memory", NARROW).json["memory"]) == 1


def test_a_token_of_one_repository_sees_its_own_lines_of_the_audit_only(api: Api) -> None:
    api.get("/tasks", api.reader(TENANT))
    api.get("/tasks", NARROW)
    api.get("/tasks", OTHER_NARROW)
    events = api.get("/audit?caller=token:x", NARROW).json["events"]
    (name,) = {event["caller"] for event in events}
    assert name.startswith(f"tenant:{TENANT}:")


def test_cancelling_and_retrying_touch_the_own_task_only(api: Api) -> None:
    mine, theirs = api.tasks[TENANT], api.tasks[OTHER]
    assert api.post(f"/tasks/{theirs}/cancel", api.admin(TENANT)).status_code == 404
    assert look(api.store, theirs).cancel_requested_at is None
    answer = api.post(f"/tasks/{mine}/cancel", api.admin(TENANT), {"reason": "not needed"})
    assert answer.json == {"ok": True, "task": mine, "answer": "settled soon"}
    assert look(api.store, mine).cancel_reason == "cancelled over the API: not needed"
    again = api.post(f"/tasks/{mine}/cancel", api.admin(TENANT))
    assert again.json["answer"] == "already asked"


def test_a_failed_task_runs_again_and_its_worker_is_woken(api: Api) -> None:
    failed = put(api.store)
    with api.store.write() as tx:
        end = tasks.Ending(TaskState.FAILED, "crashed")
        assert tasks.settle_idle(TENANT, tx, failed, api.clock.now(), end)
    answer = api.post(f"/tasks/{failed}/retry", api.admin(TENANT))
    assert answer.json == {"ok": True, "task": failed, "round": 2}
    assert look(api.store, failed).state is TaskState.QUEUED
    assert api.bell.rung == [("session", failed)]
    assert api.post(f"/tasks/{failed}/retry", api.admin(TENANT)).json["error"] == "not_failed"


def test_an_approval_is_bound_to_the_text_that_was_shown(api: Api) -> None:
    shown = api.get("/memory?state=pending", api.reader()).json["memory"][0]
    api.propose(TENANT, "conventions/tests", "Another text")
    body = {"text_hash": shown["textHash"]}
    answer = api.post(f"/memory/{shown['id']}/approve", api.admin(), body)
    assert (answer.status_code, answer.json["error"]) == (409, "text_changed")
    new = api.get("/memory?state=pending", api.reader()).json["memory"][0]
    body = {"text_hash": new["textHash"]}
    answer = api.post(f"/memory/{new['id']}/approve", api.admin(), body)
    assert answer.json == {"ok": True, "id": new["id"], "state": "approved", "fresh": True}
    told = api.get(f"/memory/{new['id']}", api.reader()).json
    assert told["decisions"][0]["by"].startswith("api:token:")


def test_revoking_takes_whole_segments_and_shows_in_the_export(api: Api) -> None:
    api.propose(TENANT, "conventionsX/tests", "Stays")
    body = {"repo": "octo/demo", "key": "repo/octo/demo/conventions/", "installation_id": 41}
    answer = api.post("/memory/revoke", api.admin(), body).json
    assert answer["revoked"] == "repo/octo/demo/conventions"
    assert answer["entries"] == [api.entries[TENANT].id]
    lines = api.get("/memory/export", api.reader()).get_data(as_text=True).splitlines()
    states = {line["summary"]: line["state"] for line in map(json.loads, lines)}
    assert states == {f"Text of {TENANT}": "revoked", "Stays": "pending"}
    assert json.loads(lines[0])["decisions"][-1]["act"] == "revoked"


def test_sharing_is_for_the_whole_installation_and_for_the_text_that_was_shown(api: Api) -> None:
    entry = api.entries[TENANT]
    path, body = f"/memory/{entry.id}/share", {"text_hash": entry.text_hash}
    ready = api.post(f"/memory/{entry.id}/approve", api.admin(), body)
    assert ready.status_code == 200
    assert api.post(path, api.tokens[TENANT][TokenScope.MEMORY_WRITE], body).status_code == 403
    assert api.post(path, api.admin(), {"text_hash": "0" * 64}).json["error"] == "text_changed"
    answer = api.post(path, api.admin(), body)
    assert answer.json["state"] == "approved"
    listed = api.get("/memory?scope=tenant_shared", api.admin()).json["memory"]
    assert [each["id"] for each in listed] == [answer.json["id"]]
    ended = api.post(f"/memory/{entry.id}/unshare", api.admin(), {})
    assert ended.json["entries"] == [answer.json["id"]]
    again = api.post(f"/memory/{entry.id}/unshare", api.admin(), {})
    assert (again.status_code, again.json["error"]) == (409, "not_shared")
