from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from coven.settings.checks import check_settings
from coven.settings.doctor import Diagnosis, Level, diagnose
from coven.settings.findings import Finding
from coven.settings.loader import load
from coven.settings.machine import BackendReport, Machine, check_machine
from coven.settings.models import Settings

CODY = {
    "id": "cody",
    "display_name": "Cody",
    "bot_username": "cody[bot]",
    "trigger_labels": ["cody:fix"],
}
GOOD: dict[str, Any] = {
    "server": {"state_dir": "/var/lib/coven-github"},
    "github": {"app_id": 1, "webhook_secret": "0123456789abcdef0123"},
    "familiars": [CODY],
    "api": {"service_token": "service-0123456789abcdef"},
}
HOSTED = {"deployment": "hosted", "public_url": "https://coven.example.com"}


def config(**changes: Any) -> Settings:
    """A good configuration with some sections changed."""
    merged = json.loads(json.dumps(GOOD))
    for name, value in changes.items():
        if isinstance(value, dict):
            merged[name] = {**merged.get(name, {}), **value}
        else:
            merged[name] = value
    return Settings.model_validate_json(json.dumps(merged))


def said(findings: list[Finding], level: Level = Level.ERROR) -> list[str]:
    return [f"{f.key}: {f.problem}" for f in findings if f.level is level]


def test_a_good_configuration_has_nothing_to_say() -> None:
    assert check_settings(config()) == []


@pytest.mark.parametrize(
    ("changes", "level", "expected"),
    [
        ({"server": {"bind": "8080"}}, "error", "server.bind"),
        ({"server": {"bind": "127.0.0.1:0"}}, "error", "server.bind"),
        ({"server": {"bind": "127.0.0.1:99999"}}, "error", "server.bind"),
        ({"server": {"public_url": "coven.example.com"}}, "error", "server.public_url"),
        ({"server": {"public_url": "https://[x"}}, "error", "server.public_url"),
        ({"server": {"cave_base_url": "ftp://x"}}, "error", "server.cave_base_url"),
        ({"server": {"deployment": "hosted"}}, "warning", "server.public_url"),
        ({"server": {"state_dir": "/tmp/coven"}}, "warning", "server.state_dir"),
        (
            {"server": {"state_dir": "/tmp/coven"}, "governance": {"enabled": True}},
            "error",
            "server.state_dir",
        ),
        ({"server": {"secret_key": "0123456789abcdef"}}, "warning", "server.secret_key"),
        ({"github": {"app_id": 0}}, "error", "github.app_id"),
        ({"github": {"webhook_secret": None}}, "error", "github.webhook_secret"),
        ({"github": {"webhook_secret": "short"}}, "warning", "github.webhook_secret"),
        ({"worker": {"backend": "host"}}, "error", "worker.backend"),
        (
            {"worker": {"backend": "host", "allow_host_backend": True}},
            "warning",
            "worker.backend",
        ),
        (
            {"worker": {"backend": "container", "container": {"image": " "}}},
            "error",
            "worker.container.image",
        ),
        ({"worker": {"lease_secs": 20, "heartbeat_secs": 15}}, "error", "worker.lease_secs"),
        (
            {"worker": {"profile": "contract-v2", "timeout_secs": 3_301}},
            "warning",
            "worker.timeout_secs",
        ),
        ({"worker": {"retry_cap_secs": 1}}, "error", "worker.retry_cap_secs"),
        ({"familiars": []}, "error", "familiars"),
        (
            {"familiars": [CODY, {**CODY, "bot_username": "b[bot]", "trigger_labels": ["b:fix"]}]},
            "error",
            "familiars[].id",
        ),
        (
            {
                "familiars": [
                    CODY,
                    {**CODY, "id": "b", "bot_username": "CODY[bot]", "trigger_labels": ["b:fix"]},
                ]
            },
            "error",
            "familiars[].bot_username",
        ),
        (
            {"familiars": [{**CODY, "bot_username": "cody"}]},
            "warning",
            "familiars[cody].bot_username",
        ),
        (
            {"familiars": [{**CODY, "trigger_labels": []}]},
            "warning",
            "familiars[cody].trigger_labels",
        ),
        (
            {"familiars": [CODY, {**CODY, "id": "b", "bot_username": "b[bot]"}]},
            "warning",
            "familiars[].trigger_labels",
        ),
        ({"commands": {"alias": "Cody"}}, "warning", "commands.alias"),
        ({"review": {"pull_request": True}}, "error", "review.familiar"),
        ({"review": {"familiar": "nova"}}, "error", "review.familiar"),
        (
            {"review": {"repos": {"o/n": {"pull_request": True}}}},
            "error",
            'review.repos."o/n".familiar',
        ),
        (
            {
                "review": {
                    "familiar": "cody",
                    "pull_request": True,
                    "repos": {"o/n": {"familiar": "nova"}},
                }
            },
            "error",
            'review.repos."o/n".familiar',
        ),
        ({"review": {"repos": {"nope": {}}}}, "error", 'review.repos."nope"'),
        ({"queue": {"broker_url": "amqp://h"}}, "error", "queue.broker_url"),
        ({"storage": {"database_url": "mysql://h/d"}}, "error", "storage.database_url"),
        (
            {"memory": {"enabled": True, "self_hosted": True, "approval_required": False}},
            "warning",
            "memory.approval_required",
        ),
        (
            {
                "memory": {
                    "enabled": True,
                    "self_hosted": True,
                    "repos": {"o/n": {"approval_required": False}},
                }
            },
            "warning",
            "memory.approval_required",
        ),
        ({"memory": {"enabled": True}}, "warning", "memory.enabled"),
        ({"memory": {"repos": {"x": {}}}}, "error", 'memory.repos."x"'),
        ({"memory": {"repos": {"o/n": {}, "O/N": {}}}}, "error", 'memory.repos."o/n"'),
        (
            {"server": HOSTED, "memory": {"self_hosted": True}},
            "warning",
            "memory.self_hosted",
        ),
        (
            {"server": HOSTED, "memory": {"enabled": True}},
            "warning",
            "memory.enabled",
        ),
        ({"gardener": {"schedule": "hourly"}}, "error", "gardener.schedule"),
        ({"gardener": {"schedule": "60 4 * * *"}}, "error", "gardener.schedule"),
        ({"gardener": {"schedule": "0 24 * * *"}}, "error", "gardener.schedule"),
        (
            {"gardener": {"repos": {"o/n": {"schedule": "x"}}}},
            "error",
            'gardener.repos."o/n".schedule',
        ),
        ({"gardener": {"enabled": True, "exclude": ["a*b"]}}, "warning", "gardener.exclude"),
        ({"api": {"mode": "open"}}, "warning", "api.mode"),
        (
            {"api": {"mode": "open"}, "server": {"bind": "0.0.0.0:8080"}},
            "error",
            "api.mode",
        ),
        ({"api": {"service_token": "short"}}, "warning", "api.service_token"),
        (
            {"api": {"tenants": [{"token": "service-0123456789abcdef", "installation_id": 1}]}},
            "error",
            "api.tenants[].token",
        ),
        (
            {
                "api": {"tenants": [{"token": "t" * 20, "installation_id": 9}]},
                "installations": [{"id": 1}],
            },
            "error",
            "api.tenants[].installation_id",
        ),
        (
            {"api": {"tenants": [{"token": "t" * 20, "installation_id": 9, "repos": ["x"]}]}},
            "error",
            "api.tenants[].repos",
        ),
        ({"installations": [{"id": 1}, {"id": 1}]}, "error", "installations[].id"),
        (
            {"installations": [{"id": 1, "familiars": ["nova"]}]},
            "error",
            "installations[1].familiars",
        ),
        ({"installations": [{"id": 1, "repos": {"x": {}}}]}, "error", 'installations[1].repos."x"'),
    ],
)
def test_each_mistake_has_one_finding_with_a_next_step(
    changes: dict[str, Any], level: str, expected: str
) -> None:
    findings = check_settings(config(**changes))
    assert [(f.level.value, f.key) for f in findings] == [(level, expected)]
    assert findings[0].next_step


def test_an_api_without_tokens_here_is_fine_for_they_are_made_in_the_ledger() -> None:
    assert check_settings(config(api={"mode": "token", "service_token": None})) == []


def test_an_open_api_beside_paid_plans_is_worth_a_second_word() -> None:
    findings = check_settings(config(api={"mode": "open"}, billing={"require_plan": True}))
    assert [f.key for f in findings] == ["api.mode", "billing.require_plan"]


@pytest.mark.parametrize("pattern", ["*", "docs/*", "plain"])
def test_an_exclude_pattern_with_a_trailing_star_is_fine(pattern: str) -> None:
    assert check_settings(config(gardener={"enabled": True, "exclude": [pattern]})) == []


# --- the machine -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ).decode()


def machine(**changes: Any) -> Machine:
    healthy: dict[str, Any] = {
        "which": lambda name: f"/usr/bin/{name}",
        "git_version": lambda: "git version 2.43.0\n",
        "broker_program": lambda: Path("/usr/bin/valkey-server"),
        "backend_report": lambda _: BackendReport(),
    }
    return Machine(**{**healthy, **changes})


def ready(tmp_path: Path, pem: str, **changes: Any) -> Settings:
    return config(
        server={"state_dir": str(tmp_path / "state")},
        github={"private_key": pem},
        **changes,
    )


def test_a_healthy_machine_has_no_errors(tmp_path: Path, pem: str) -> None:
    findings = check_machine(ready(tmp_path, pem), machine())
    assert {f.level for f in findings} == {Level.OK}
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"git_version": lambda: None}, "git: is not installed"),
        ({"git_version": lambda: "git version 2.25.1"}, "git: 2.25.1 is too old"),
        ({"which": lambda _: None}, "worker.coven_code_bin: there is no program coven-code"),
        ({"broker_program": lambda: None}, "queue.broker_url: is not set, and no server"),
        (
            {
                "backend_report": lambda _: BackendReport(
                    problems=("bwrap is not installed: install bubblewrap",)
                )
            },
            "worker.backend: bwrap is not installed",
        ),
    ],
)
def test_what_a_machine_lacks_is_an_error(
    tmp_path: Path, pem: str, changes: dict[str, Any], expected: str
) -> None:
    errors = said(check_machine(ready(tmp_path, pem), machine(**changes)))
    assert len(errors) == 1
    assert errors[0].startswith(expected)


def test_what_the_backend_enforces_and_what_it_does_not_is_listed(tmp_path: Path, pem: str) -> None:
    report = BackendReport(
        notices=("/srv/AGENTS.md would be read by every session: move it",),
        describe=("enforced: files", "not enforced: which hosts a session may reach"),
        version="coven-code 0.7.0",
        contract="2",
    )
    found = check_machine(ready(tmp_path, pem), machine(backend_report=lambda _: report))
    told = {f.problem for f in found if f.level is Level.OK}
    assert "not enforced: which hosts a session may reach" in told
    assert "bubblewrap: its self-test passed" in told
    assert any("coven-code 0.7.0 gets briefs of contract version 2" in text for text in told)
    (notice,) = [f for f in found if f.level is Level.WARNING]
    assert (notice.problem, notice.next_step) == (
        "/srv/AGENTS.md would be read by every session",
        "move it",
    )


def test_the_container_backend_needs_its_own_program(tmp_path: Path, pem: str) -> None:
    settings = ready(tmp_path, pem, worker={"backend": "container"})
    errors = said(check_machine(settings, machine(which=lambda _: None)))
    assert errors == ["worker.container.docker_bin: there is no program docker"]


def test_a_configured_broker_needs_no_program(tmp_path: Path, pem: str) -> None:
    settings = ready(tmp_path, pem, queue={"broker_url": "redis://h:6379/0"})
    assert said(check_machine(settings, machine(broker_program=lambda: None))) == []


def test_key_problems_are_plain_and_hold_no_key(tmp_path: Path, pem: str) -> None:
    for bad in (pem[: len(pem) // 2], "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA", "nonsense"):
        settings = config(github={"private_key": bad}, server={"state_dir": str(tmp_path)})
        errors = said(check_machine(settings, machine()))
        assert len(errors) == 1
        assert errors[0].startswith("github.private_key")
        assert pem[60:100] not in errors[0]


def test_a_missing_key_file_names_the_path(tmp_path: Path) -> None:
    settings = config(
        github={"private_key_path": str(tmp_path / "app.pem")},
        server={"state_dir": str(tmp_path)},
    )
    errors = said(check_machine(settings, machine()))
    assert len(errors) == 1
    assert "app.pem" in errors[0]


def test_a_key_file_for_everybody_is_a_warning(tmp_path: Path, pem: str) -> None:
    path = tmp_path / "app.pem"
    path.write_text(pem)
    path.chmod(0o644)
    settings = config(github={"private_key_path": str(path)}, server={"state_dir": str(tmp_path)})
    warnings = said(check_machine(settings, machine()), Level.WARNING)
    assert warnings == [f"github.private_key_path: everybody here can read {path}"]
    path.chmod(0o600)
    assert said(check_machine(settings, machine()), Level.WARNING) == []


def test_a_state_dir_below_a_file_is_an_error(tmp_path: Path, pem: str) -> None:
    (tmp_path / "state").write_text("")
    errors = said(check_machine(ready(tmp_path, pem), machine()))
    assert len(errors) == 1
    assert errors[0].startswith("server.state_dir")


def test_a_database_file_that_is_a_folder_is_an_error(tmp_path: Path, pem: str) -> None:
    settings = ready(tmp_path, pem, storage={"path": str(tmp_path)})
    assert said(check_machine(settings, machine())) == [f"storage.path: {tmp_path} is a folder"]


# --- the diagnosis ---------------------------------------------------------------------------


def examine(text: str, tmp_path: Path) -> Diagnosis:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return diagnose(load(path, {}, tmp_path), None)


def test_exit_codes_tell_healthy_errors_and_unreadable_apart(tmp_path: Path) -> None:
    good = (
        "[server]\nstate_dir='/var/lib/c'\n[github]\napp_id=1\nwebhook_secret='0123456789abcdef'\n"
        "[api]\nmode='open'\n[[familiars]]\nid='c'\ndisplay_name='C'\nbot_username='c[bot]'\n"
    )
    healthy = examine(good, tmp_path)
    assert (healthy.exit_code, healthy.errors) == (0, 0)
    assert healthy.warnings == 2
    assert examine("", tmp_path).exit_code == 1
    assert examine("[", tmp_path).exit_code == 2
    assert diagnose(load(tmp_path / "missing", {}, tmp_path), None).exit_code == 2


def test_what_the_loader_refused_is_said_once_and_errors_come_first(tmp_path: Path) -> None:
    diagnosis = examine(
        "[github]\nwebhook_secret='CHANGE_ME'\napp_id='x'\n[api]\nmode='open'\n[familars]\n",
        tmp_path,
    )
    keys = [f.key for f in diagnosis.findings]
    assert keys.count("github.webhook_secret") == 1
    assert keys.count("github.app_id") == 1
    levels = [f.level for f in diagnosis.findings]
    assert levels == sorted(levels, key=[Level.ERROR, Level.WARNING, Level.OK].index)
    assert "familiars" in keys
    assert "api.mode" in keys
