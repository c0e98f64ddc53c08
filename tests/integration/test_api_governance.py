"""Rules over HTTP: tokens read and ask, the operator's signature changes, nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from werkzeug.test import TestResponse

from coven.governance.actions import Custom
from coven.governance.admin import Admin, Row
from coven.governance.context import acting
from coven.governance.refusal import ActionEscalated
from coven.governance.signed_requests import ALIAS, EPOCH, NONCE, SIGNATURE, TIMESTAMP, sign_request
from coven.governance.signing import Signer
from coven.store import escalations, rules
from coven.store.engine import Store
from tests.integration.api_kit import BASE, NARROW, SERVICE, Api
from tests.ledger import NOW, OTHER, TENANT
from tests.support.governance import Office, office
from webhooks.app import create_app

HOST = "localhost"


class Counter:
    """The API of a server with signed rules, and its operator somewhere else."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.api = Api(store)
        self.office: Office = office(store, folder)
        self.office.clock = self.api.clock
        self.office.engine.clock = self.api.clock
        self.office.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "ask first")
        self.office.admin.add(
            "X5", "bash", '{"argv_prefix":["rm"]}', "refuse", "no rm",
            namespace=f"installation/{OTHER}",
        )  # fmt: skip
        settings = self.api.settings.model_copy(
            update={"governance": self.office.settings.governance, "server": self._server()}
        )
        self.api.services = replace(self.api.services, rules=self.office.gate, settings=settings)
        self.api.app = create_app(self.api.services, github=cast(Any, lambda _: None))
        self.api.client = self.api.app.test_client()
        self.signer = self.office.engine.keys.signer("operator")

    def _server(self) -> Any:
        return self.api.settings.server.model_copy(
            update={"state_dir": self.office.settings.server.state_dir}
        )

    @property
    def admin(self) -> Admin:
        return self.office.admin

    @property
    def epoch(self) -> int:
        with self.api.store.read() as tx:
            return rules.newest_epoch(tx)

    def planned(self, change: Callable[[list[Row]], list[Row]]) -> dict[str, Any]:
        """What the operator's machine would send: a signed row and head."""
        with self.api.store.read() as tx:
            rows = [dict(row) for row in rules.all_rules(tx)]
        done = self.admin.plan(change, "x", self.signer, rows, self.epoch + 1)
        (row,) = done.rows
        return {"row": _json(row) | {"enabled": bool(row["enabled"])}, "head": _json(done.head)}

    def send(
        self, method: str, path: str, body: Any, signer: Signer | None = None, **changes: Any
    ) -> TestResponse:
        """A signed request; ``changes`` are headers to replace, None to leave out."""
        data = json.dumps(body).encode()
        headers: dict[str, str] = sign_request(
            signer or self.signer, method, f"{BASE}{path}", HOST, data, self.epoch,
            self.api.clock.now().timestamp(),
        )  # fmt: skip
        for name, value in changes.pop("headers", {}).items():
            headers.pop(name, None)
            if value is not None:
                headers[name] = value
        return self.api.client.open(
            changes.get("url", f"{BASE}{path}"),
            method=changes.get("verb", method),
            data=changes.get("data", data),
            headers={**headers, "Content-Type": "application/json"},
            base_url=changes.get("base_url", "http://localhost/"),
        )


def _json(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in row.items()}


NEW: Row = {
    "id": "N1", "kind": "bash", "matcher": '{"argv_prefix":["dd"]}', "severity": "refuse",
    "reason": "no dd", "namespace": "_global", "created_by": "operator", "created_at": 1,
    "enabled": 1, "revision": 0, "removed_at": None, "examples": None,
}  # fmt: skip


def new(_: list[Row]) -> list[Row]:
    return [dict(NEW)]


def changed(rule_id: str, **values: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [next(row for row in rows if row["id"] == rule_id) | values]


@pytest.fixture
def counter(sqlite_store: Store, tmp_path: Path) -> Counter:
    return Counter(sqlite_store, tmp_path)


def said(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, str((answer.json or {}).get("error"))


def test_an_operator_adds_disables_and_removes_a_rule_from_elsewhere(
    store: Store, tmp_path: Path
) -> None:
    counter = Counter(store, tmp_path)
    added = counter.send("POST", "/governance/rules", counter.planned(new))
    assert added.status_code == 200, added.json
    assert added.json["rule"]["enforcement_state"] == "enforced"
    path = "/governance/rules/N1"
    off = counter.send("PATCH", path, counter.planned(changed("N1", enabled=0)))
    assert off.json["rule"]["enforcement_state"] == "disabled"
    gone = counter.planned(changed("N1", enabled=0, removed_at=2))
    assert counter.send("DELETE", path, gone).json["rule"]["removed_at"] == 2
    counter.office.engine.policy()
    kinds = [row["event_type"] for row in counter.office.events()]
    for kind in ("rule_added", "rule_disabled", "rule_removed"):
        assert f"governance.{kind}" in kinds
    assert counter.office.proven().ok


def test_the_header_name_of_the_seed_is_an_alias(counter: Counter) -> None:
    body = counter.planned(new)
    data = json.dumps(body).encode()
    now = counter.api.clock.now().timestamp()
    headers = sign_request(
        counter.signer, "POST", f"{BASE}/governance/rules", HOST, data, counter.epoch, now
    )
    headers[ALIAS] = headers.pop(SIGNATURE)
    answer = counter.api.client.post(
        f"{BASE}/governance/rules", data=data,
        headers={**headers, "Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.status_code == 200, answer.json


BROKEN: dict[str, dict[str, Any]] = {
    "too old": {"headers": {TIMESTAMP: str(int(NOW.timestamp()) - 301)}},
    "too far ahead": {"headers": {TIMESTAMP: str(int(NOW.timestamp()) + 61)}},
    "another nonce": {"headers": {NONCE: "A" * 32}},
    "a short nonce": {"headers": {NONCE: "A" * 21}},
    "no nonce": {"headers": {NONCE: None}},
    "no signature": {"headers": {SIGNATURE: None}},
    "a garbled signature": {"headers": {SIGNATURE: "!!!"}},
    "no epoch": {"headers": {EPOCH: None}},
    "another epoch": {"headers": {EPOCH: "99"}},
    "another method": {"verb": "PATCH", "url": f"{BASE}/governance/rules/N1"},
    "another path": {"url": f"{BASE}/governance/rules?x=1"},
    "another host": {"base_url": "http://other.example/"},
    "another body": {"data": b'{"row":{},"head":{}}'},
}


@pytest.mark.parametrize("name", BROKEN)
def test_w16_a_request_that_is_not_exactly_what_was_signed_is_refused_alike(
    counter: Counter, name: str
) -> None:
    before = counter.epoch
    answer = counter.send("POST", "/governance/rules", counter.planned(new), **BROKEN[name])
    assert said(answer) == (401, "governance.stale_request")
    assert "sign the request anew" in answer.json["detail"]
    assert counter.epoch == before


@pytest.mark.parametrize(("age", "status"), [(300, 200), (301, 401), (-60, 200), (-61, 401)])
def test_the_clock_may_be_off_by_so_much(counter: Counter, age: int, status: int) -> None:
    body = json.dumps(counter.planned(new)).encode()
    then = counter.api.clock.now().timestamp() - age
    headers = sign_request(
        counter.signer, "POST", f"{BASE}/governance/rules", HOST, body, counter.epoch, then
    )
    answer = counter.api.client.post(
        f"{BASE}/governance/rules", data=body,
        headers={**headers, "Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.status_code == status, answer.json


def test_w16_a_replayed_request_is_refused_also_by_another_process(counter: Counter) -> None:
    body = json.dumps(counter.planned(changed("X4", enabled=0))).encode()
    path = f"{BASE}/governance/rules/X4"
    now = counter.api.clock.now().timestamp()
    headers = sign_request(counter.signer, "PATCH", path, HOST, body, counter.epoch, now)
    headers["Content-Type"] = "application/json"
    assert counter.api.client.patch(path, data=body, headers=headers).status_code == 200
    other = create_app(counter.api.services, github=cast(Any, lambda _: None)).test_client()
    again = other.patch(path, data=body, headers=headers)
    assert said(again) == (401, "governance.stale_request")


def test_a_key_that_is_not_trusted_signs_in_vain(counter: Counter) -> None:
    stranger = Signer.from_seed(b"\7" * 32)
    answer = counter.send("POST", "/governance/rules", counter.planned(new), stranger)
    assert said(answer) == (401, "governance.stale_request")


def test_no_token_of_whatever_scope_changes_rules(counter: Counter) -> None:
    for token in (SERVICE, counter.api.admin(), counter.api.admin(None)):
        answer = counter.api.post("/governance/rules", token, counter.planned(new))
        assert said(answer) == (401, "governance.stale_request")


def test_a_change_of_rules_that_moved_on_conflicts(counter: Counter) -> None:
    body, seen = counter.planned(new), counter.epoch
    counter.admin.disable("X4")
    data = json.dumps(body).encode()
    now = counter.api.clock.now().timestamp()
    headers = sign_request(
        counter.signer, "POST", f"{BASE}/governance/rules", HOST, data, seen, now
    )
    answer = counter.api.client.post(
        f"{BASE}/governance/rules", data=data,
        headers={**headers, "Content-Type": "application/json"},
    )  # fmt: skip
    assert said(answer) == (409, "governance.epoch_conflict")
    stale = counter.send("POST", "/governance/rules", body)
    assert stale.status_code == 409, "the head inside was signed over other rules"


BAD_ROWS: dict[str, tuple[dict[str, Any], int, str]] = {
    "an unknown key": ({"matcher": '{"regex":"x"}'}, 422, "governance.invalid_matcher"),
    "a fraction": ({"matcher": '{"opaque_code":1.5}'}, 422, "governance.invalid_matcher"),
    "a key twice": (
        {"matcher": '{"opaque_code":true,"opaque_code":true}'}, 422, "governance.invalid_matcher",
    ),
    "an unknown kind": ({"kind": "telepathy"}, 400, "bad_value"),
    "an unknown severity": ({"severity": "allow"}, 400, "bad_value"),
    "an unsigned row": ({"signature": ""}, 409, "governance.policy_tampered"),
    "a changed reason": ({"reason": "because"}, 409, "governance.policy_tampered"),
    "another member": ({"owner": "me"}, 400, "unknown_key"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_is_not_sound_or_not_as_signed_is_refused(counter: Counter, name: str) -> None:
    values, status, code = BAD_ROWS[name]
    body, before = counter.planned(new), counter.epoch
    body["row"] |= values
    answer = counter.send("POST", "/governance/rules", body)
    assert said(answer) == (status, code), answer.json
    assert counter.epoch == before


def test_tokens_read_rules_and_tenants_see_only_their_own_and_no_fence_map(
    counter: Counter,
) -> None:
    every = counter.api.get("/governance/rules", SERVICE).json
    assert {"X4", "X5", "R001"} <= {rule["id"] for rule in every["rules"]}
    assert every["policy_epoch"] == counter.epoch
    mine = counter.api.get("/governance/rules?enabled_only=true", counter.api.reader()).json
    assert [rule["id"] for rule in mine["rules"]] == ["X4"]
    assert mine["rules"][0]["matcher"] is None
    theirs = counter.api.get("/governance/rules/X5", counter.api.reader(OTHER)).json
    assert theirs["rule"]["matcher"] == {"argv_prefix": ["rm"]}
    assert counter.api.get("/governance/rules/X5", counter.api.reader()).status_code == 404


def test_a_check_answers_with_the_envelope_and_is_on_record(counter: Counter) -> None:
    before = len(counter.office.events())
    asked = {"kind": "bash", "command": "rm -rf x"}
    allowed = counter.api.post("/governance/check", counter.api.reader(), asked).json
    assert allowed["decision"] == {"decision": "allow"}
    refused = counter.api.post("/governance/check", counter.api.reader(OTHER), asked)
    assert refused.status_code == 200
    facts = refused.json
    assert facts["error"] == "GOVERNANCE_REFUSED"
    assert facts["decision"] == {"decision": "refuse", "rule_id": "X5", "reason": "no rm"}
    assert facts["matched"] == [{"rule_id": "X5", "severity": "refuse", "kind": "bash"}]
    (_, row) = counter.office.events()[before:]
    assert (row["event_type"], row["decision_id"]) == ("governance.check", facts["decision_id"])
    assert row["installation_id"] == OTHER


def test_w11_a_check_for_a_task_binds_the_tasks_namespace(counter: Counter) -> None:
    tasks = counter.api.tasks
    asked = {"kind": "bash", "command": "rm x", "task": tasks[OTHER]}
    assert counter.api.post("/governance/check", SERVICE, asked).json["error"]
    stranger = counter.api.post("/governance/check", counter.api.reader(TENANT), asked)
    assert stranger.status_code == 404
    mine = {"kind": "bash", "command": "ls", "task": tasks[TENANT]}
    assert counter.api.post("/governance/check", NARROW, mine).status_code == 200


MALFORMED = {
    "a NUL byte": {"kind": "bash", "command": "a\0b"},
    "an oversized command": {"kind": "bash", "command": "x" * (64 * 1024 - 200) + "é" * 400},
    "a lone surrogate": b'{"kind":"filesystem_write","path":"/a\\ud800"}',
    "a member of another kind": {"kind": "bash", "command": "x", "path": "/x"},
    "a missing member": {"kind": "bash"},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_no_rule_can_judge_is_refused_with_a_sentence(counter: Counter, name: str) -> None:
    answer = counter.api.post("/governance/check", SERVICE, MALFORMED[name])
    if answer.status_code == 200:
        decision = answer.json["decision"]
        assert decision["rule_id"] == "governance:malformed_event"
        assert ";" in decision["reason"], "says what to do"
        assert answer.json["error"] == "GOVERNANCE_REFUSED"
    else:
        assert answer.status_code in (400, 413)
        assert answer.json["detail"]


def held(counter: Counter) -> str:
    who = counter.office.acting(task_id=counter.api.tasks[TENANT])
    with acting(who), pytest.raises(ActionEscalated) as caught:
        counter.office.gate.check(Custom("deploy", None), "p")
    return caught.value.escalation_id


def test_an_operator_decides_once_and_tokens_only_look(counter: Counter) -> None:
    name = held(counter)
    (waiting,) = counter.api.get("/governance/escalations", counter.api.reader()).json[
        "escalations"
    ]
    assert (waiting["id"], waiting["rule_id"], waiting["status"]) == (name, "X4", "pending")
    assert (
        counter.api.get("/governance/escalations", counter.api.reader(OTHER)).json["escalations"]
        == []
    )
    path = f"/governance/escalations/{name}/decision"
    body = {"installation_id": TENANT, "decision": "approve"}
    refused = counter.api.post(path, counter.api.admin(), body)
    assert said(refused) == (401, "governance.stale_request")
    done = counter.send("POST", path, body)
    assert done.json["escalation"]["status"] == "approved", done.json
    assert done.json["escalation"]["decided_by"] == f"operator:{counter.signer.key_id}"
    assert said(counter.send("POST", path, body)) == (409, "governance.already_decided")
    elsewhere = {"installation_id": OTHER, "decision": "deny"}
    assert counter.send("POST", path, elsewhere).status_code == 404


def test_the_list_of_escalations_goes_on_where_it_ended(counter: Counter) -> None:
    who = counter.office.acting(task_id=counter.api.tasks[TENANT])
    for number in range(3):
        with acting(who), pytest.raises(ActionEscalated):
            counter.office.gate.check(Custom("deploy", number), "p")
    seen: list[str] = []
    page = "/governance/escalations?limit=1"
    for _ in range(3):
        answer = counter.api.get(page, counter.api.reader()).json
        seen += [each["id"] for each in answer["escalations"]]
        page = f"/governance/escalations?limit=1&cursor={answer['next_cursor']}"
    assert len(set(seen)) == 3
    assert answer["next_cursor"] is None
    with counter.api.store.read() as tx:
        assert {each.id for each in escalations.listed(TENANT, tx)} == set(seen)


def test_the_record_is_read_by_tenant(counter: Counter) -> None:
    held(counter)
    every = counter.api.get("/governance/audit?limit=200", SERVICE).json
    assert [row["sequence"] for row in every["rows"]] == list(range(1, len(every["rows"]) + 1))
    assert every["head"]["row_hash"] == every["rows"][-1]["row_hash"]
    mine = counter.api.get("/governance/audit", counter.api.reader()).json
    assert {row["installation_id"] for row in mine["rows"]} == {TENANT}
    assert counter.api.get("/governance/audit", counter.api.reader(OTHER)).json["rows"] == []
    assert counter.api.get("/governance/audit", NARROW).status_code == 403


def test_capabilities_claim_what_holds_now(counter: Counter) -> None:
    def governance() -> dict[str, Any]:
        answer = counter.api.get("/capabilities", SERVICE).json
        return dict(answer["capabilities"]["governance"])

    facts = governance()
    assert facts["agent_action_check"] == "substrate-authoritative-for-internal-ops"
    assert (facts["rules_immutable_seed"], facts["policy_trusted"]) == (True, True)
    assert facts["policy_epoch"] == counter.epoch
    assert facts["rules_enforced"] == 2
    with counter.api.store.write() as tx:
        tx.exec_driver_sql("UPDATE governance_rules SET enabled = 0 WHERE id = 'X4'")
    facts = governance()
    assert (facts["rules_immutable_seed"], facts["policy_trusted"]) == (False, False)


def test_capabilities_of_a_server_without_rules_claim_nothing(sqlite_store: Store) -> None:
    api = Api(sqlite_store)
    facts = api.get("/capabilities", SERVICE).json["capabilities"]["governance"]
    assert (facts["enabled"], facts["agent_action_check"]) == (False, "off")
    assert facts["rules_immutable_seed"] is False
    off = api.post("/governance/check", SERVICE, {"kind": "bash", "command": "ls"})
    assert said(off) == (409, "governance.off")
