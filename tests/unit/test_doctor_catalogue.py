"""Every check of the doctor is listed, can fire, and then names one next step."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from coven import doctor_online
from coven.settings.catalogue import CHECKS, check_of
from coven.settings.doctor import diagnose
from coven.settings.loader import load

ROOT = Path(__file__).parents[2]

BASE = {
    "server": "state_dir = '/var/lib/c'",
    "github": "app_id = 1\nwebhook_secret = '0123456789abcdef0123'",
    "api": "service_token = 'service-0123456789abcdef'",
    "familiars": (
        "id = 'c'\ndisplay_name = 'C'\nbot_username = 'c[bot]'\ntrigger_labels = ['c:fix']"
    ),
}
TWICE = BASE["familiars"] + "\n[[familiars]]\n" + BASE["familiars"]
HOSTED = "state_dir = '/var/lib/c'\ndeployment = 'hosted'\npublic_url = 'https://c.example.com'"

# What must be noticed, as ``section: lines`` over a good configuration, and the check that says it.
CASES: list[tuple[str, dict[str, str], str, str]] = [
    ("no App id", {"github": "webhook_secret = '0123456789abcdef0123'"}, "github.app_id", "error"),
    ("no secret", {"github": "app_id = 1"}, "github.webhook_secret", "error"),
    (
        "blank secret",
        {"github": "app_id = 1\nwebhook_secret = ' '"},
        "github.webhook_secret",
        "error",
    ),
    *(
        (
            f"placeholder {word}",
            {"github": f"app_id = 1\nwebhook_secret = '{word}'"},
            "github.webhook_secret",
            "error",
        )
        for word in (
            "CHANGE_ME",
            "changeme",
            "replace-with-a-random-webhook-secret",
            "replace-me",
            "your-secret",
            "Secret",
        )
    ),
    (
        "short secret",
        {"github": "app_id = 1\nwebhook_secret = 'abcdefgh'"},
        "github.webhook_secret",
        "warning",
    ),
    ("no concurrency", {"worker": "concurrency = 0"}, "worker.concurrency", "error"),
    ("no deadline", {"worker": "timeout_secs = 0"}, "worker.timeout_secs", "error"),
    ("host backend", {"worker": "backend = 'host'"}, "worker.backend", "error"),
    (
        "host backend, hosted",
        {"server": HOSTED, "worker": "backend = 'host'"},
        "worker.backend",
        "error",
    ),
    (
        "no image",
        {"worker": "backend = 'container'\n[worker.container]\nimage = ' '"},
        "worker.container.image",
        "error",
    ),
    ("no familiar", {"familiars": ""}, "familiars", "error"),
    ("a familiar twice", {"familiars": TWICE}, "familiars[].id", "error"),
    ("a bot twice", {"familiars": TWICE}, "familiars[].bot_username", "error"),
    (
        "empty id",
        {"familiars": BASE["familiars"].replace("id = 'c'", "id = ''")},
        "familiars[].id",
        "error",
    ),
    (
        "blank bot",
        {"familiars": BASE["familiars"].replace("'c[bot]'", "''")},
        "familiars[].bot_username",
        "error",
    ),
    (
        "bot without [bot]",
        {"familiars": BASE["familiars"].replace("c[bot]", "c")},
        "familiars[].bot_username",
        "warning",
    ),
    (
        "no labels",
        {"familiars": BASE["familiars"].replace("['c:fix']", "[]")},
        "familiars[].trigger_labels",
        "warning",
    ),
    ("open API", {"api": "mode = 'open'"}, "api.mode", "warning"),
    (
        "open API for the world",
        {"api": "mode = 'open'", "server": "state_dir = '/v'\nbind = '0.0.0.0:80'"},
        "api.mode",
        "error",
    ),
    (
        "short token",
        {"api": "[[api.tenants]]\ntoken = 'abcdefgh'\ninstallation_id = 1"},
        "api.tenants[].token",
        "warning",
    ),
    (
        "a token twice",
        {
            "api": BASE["api"]
            + "\n[[api.tenants]]\ntoken = 'service-0123456789abcdef'\ninstallation_id = 1"
        },
        "api.tenants[].token",
        "error",
    ),
    (
        "tenant of no installation",
        {"api": "[[api.tenants]]\ntoken = 'tttttttttttttttttttt'\ninstallation_id = 0"},
        "api.tenants[].installation_id",
        "error",
    ),
    (
        "tenant of an unknown installation",
        {
            "api": "[[api.tenants]]\ntoken = 'tttttttttttttttttttt'\ninstallation_id = 2",
            "installations": "id = 1",
        },
        "api.tenants[].installation_id",
        "error",
    ),
    ("installation 0", {"installations": "id = 0"}, "installations[].id", "error"),
    (
        "installation twice",
        {"installations": "id = 1\n[[installations]]\nid = 1"},
        "installations[].id",
        "error",
    ),
    (
        "installation with an unknown familiar",
        {"installations": "id = 1\nfamiliars = ['x']"},
        "installations[].familiars",
        "error",
    ),
    (
        "limit 0",
        {"installations": "id = 1\n[installations.limits]\nmax_concurrent = 0"},
        "installations[].limits",
        "error",
    ),
    ("reviews without reviewer", {"review": "pull_request = true"}, "review.familiar", "error"),
    ("unknown reviewer", {"review": "familiar = 'x'"}, "review.familiar", "error"),
    (
        "reviews of one repository without reviewer",
        {"review": "[review.repos.'o/n']\npull_request = true"},
        'review.repos."owner/name".familiar',
        "error",
    ),
    (
        "unknown reviewer where the lane is inherited",
        {
            "review": "familiar = 'c'\npull_request = true\n[review.repos.'o/n']\nfamiliar = 'x'",
        },
        'review.repos."owner/name".familiar',
        "error",
    ),
    ("severity", {"review": "min_severity = 'urgent'"}, "review.min_severity", "error"),
    ("publish", {"review": "publish = 'shout'"}, "review.publish", "error"),
    ("autonomy full", {"gardener": "autonomy = 'full'"}, "gardener.autonomy", "error"),
    ("schedule", {"gardener": "schedule = '*/5 * * * *'"}, "gardener.schedule", "error"),
    (
        "star in the middle",
        {"gardener": "enabled = true\nexclude = ['a*b']"},
        "gardener.exclude",
        "warning",
    ),
    (
        "memory without approval",
        {"memory": "enabled = true\nself_hosted = true\napproval_required = false"},
        "memory.approval_required",
        "warning",
    ),
    ("memory without effect", {"memory": "enabled = true"}, "memory.enabled", "warning"),
    ("memory kept 0 days", {"memory": "retention_days = 0"}, "memory.retention_days", "error"),
    (
        "tasks kept 0 days",
        {"storage": "task_retention_days = 0"},
        "storage.task_retention_days",
        "error",
    ),
    ("bad bind", {"server": "state_dir = '/v'\nbind = 'here'"}, "server.bind", "error"),
    (
        "bad URL",
        {"server": "state_dir = '/v'\npublic_url = 'c.example.com'"},
        "server.public_url",
        "error",
    ),
    ("state in a temp folder", {"server": "state_dir = '/tmp/c'"}, "server.state_dir", "warning"),
    (
        "plans with an open API",
        {"api": "mode = 'open'", "billing": "require_plan = true"},
        "billing.require_plan",
        "warning",
    ),
    ("a typo that would fail open", {"bilings": "require_plan = true"}, "bilings", "error"),
    (
        "rules anybody may change",
        {"governance": "enabled = true\nmode = 'unsigned-dev'"},
        "governance.mode",
        "warning",
    ),
]


def text_of(changes: dict[str, str]) -> str:
    arrays = {"familiars", "installations"}
    parts = {**BASE, **changes}
    lines = []
    for name in sorted(parts, key=lambda n: n in arrays):
        header = f"[[{name}]]" if name in arrays else f"[{name}]"
        if parts[name]:
            lines.append(f"{header}\n{parts[name]}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("changes", "check", "level"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_each_mistake_is_noticed_with_one_next_step(
    changes: dict[str, str], check: str, level: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text_of(changes))
    found = diagnose(load(path, {}, tmp_path), None).findings
    said = [f for f in found if check_of(f.key) == check or check_of(f.key).startswith(f"{check}.")]
    assert [f.level.value for f in said] == [level], [str(f) for f in found]
    assert said[0].next_step
    assert "\n" not in said[0].next_step


def test_the_base_of_the_cases_is_healthy(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text_of({}))
    assert diagnose(load(path, {}, tmp_path), None).findings == ()


def keys_in(module: str) -> set[str]:
    """The keys that a module makes findings under, where they stand there as text."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in {"error", "warning", "ok", "make", "_short"} and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant):
                found.add(str(key.value))
    return found


@pytest.mark.parametrize(
    "module",
    ["coven/settings/checks.py", "coven/settings/machine.py", "coven/doctor_online.py"],
)
def test_every_key_that_the_code_reports_is_listed(module: str) -> None:
    keys = keys_in(module)
    assert keys
    assert {check_of(key) for key in keys} <= set(CHECKS)


def test_every_online_step_is_listed() -> None:
    assert set(doctor_online.STEPS) <= set(CHECKS)


def test_every_check_says_what_it_wants() -> None:
    assert all(CHECKS.values())


@pytest.mark.parametrize(
    ("key", "check"),
    [
        ("familiars[cody].bot_username", "familiars[].bot_username"),
        ("familiars[0].bot_username", "familiars[].bot_username"),
        ('review.repos."acme/shop".familiar', 'review.repos."owner/name".familiar'),
        ("github.webhook_secret_file", "github.webhook_secret"),
        ("github.private_key_path", "github.private_key_path"),
    ],
)
def test_a_check_is_named_without_the_names_in_its_key(key: str, check: str) -> None:
    assert check_of(key) == check
