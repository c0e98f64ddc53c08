"""What can be wrong with a configuration whose every value is valid by itself. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from pydantic import SecretStr

from coven.settings.defaults import MIN_SECRET_CHARS, is_volatile
from coven.settings.findings import Finding, error, warning
from coven.settings.models import Settings
from coven.values import RepoName

PUSH_TOKEN_SECS = 3_300
"""How long a session may push with the token that it was started with, five minutes kept back."""

_CRON = re.compile(r"(\d{1,2}) (\d{1,2}) \* \* \*\Z")
_GENERATE = "generate one: openssl rand -hex 32"


def check_settings(settings: Settings) -> list[Finding]:
    """All findings of the pure checks, in the order of the sections."""
    return [
        *_server(settings),
        *_github(settings),
        *_worker(settings),
        *_familiars(settings),
        *_review(settings),
        *_services(settings),
        *_memory(settings),
        *_gardener(settings),
        *_api(settings),
        *_installations(settings),
        *_governance(settings),
        *_metrics(settings),
    ]


def _metrics(settings: Settings) -> Iterator[Finding]:
    metrics = settings.metrics
    if metrics.token is not None:
        yield from _short("metrics.token", [metrics.token])
    for network in metrics.allow:
        try:
            ip_network(network)
        except ValueError:
            yield error("metrics.allow", f"{network!r} is no network", "write it like 10.0.0.0/8")


def _server(settings: Settings) -> Iterator[Finding]:
    server = settings.server
    host, colon, port = server.bind.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
        yield error("server.bind", "is no HOST:PORT", 'write it like "127.0.0.1:8080"')
    for key in ("public_url", "flower_url", "cave_base_url"):
        value = getattr(server, key)
        if value is not None and not _is_web_address(value):
            yield error(f"server.{key}", "is no http(s) address", "write it like https://HOST")
    if server.deployment == "hosted" and server.public_url is None:
        yield warning(
            "server.public_url", "is not set", "set it, so that links on GitHub lead somewhere"
        )
    if is_volatile(server.state_dir):
        make = error if settings.governance.enabled else warning
        yield make(
            "server.state_dir",
            f"{server.state_dir} lies where machines empty folders by themselves",
            "use a folder on a lasting disk, such as /var/lib/coven-github",
        )
    if server.secret_key is not None and len(server.secret_key.get_secret_value()) < 32:
        yield warning("server.secret_key", "is shorter than 32 characters", _GENERATE)


def _github(settings: Settings) -> Iterator[Finding]:
    github = settings.github
    if github.app_id == 0:
        yield error(
            "github.app_id",
            "is not set",
            "run `coven-github setup`, or copy the numeric id from the App's page",
        )
    secrets = [*github.webhook_secrets]
    if github.webhook_secret is not None:
        secrets.insert(0, github.webhook_secret)
    if not secrets:
        yield error(
            "github.webhook_secret",
            "is not set",
            f"use the secret of the App's webhook settings ({_GENERATE})",
        )
    yield from _short("github.webhook_secret", secrets)
    if github.private_key is not None and github.private_key_path is not None:
        yield warning(
            "github.private_key_path", "is ignored beside private_key", "keep one of the two"
        )


def _worker(settings: Settings) -> Iterator[Finding]:
    worker = settings.worker
    if worker.backend == "host":
        if not worker.allow_host_backend:
            yield error(
                "worker.backend",
                "host runs what strangers write with the rights of the worker",
                "choose bubblewrap or container, or set worker.allow_host_backend = true",
            )
        else:
            yield warning(
                "worker.backend",
                "host keeps sessions apart from nothing",
                "choose bubblewrap or container unless you trust every contributor",
            )
    if worker.backend == "container" and not worker.container.image.strip():
        yield error("worker.container.image", "is blank", "name the image of the runtime")
    if worker.profile == "contract-v2" and worker.timeout_secs > PUSH_TOKEN_SECS:
        yield warning(
            "worker.timeout_secs",
            "is longer than the token lives that a contract-v2 session pushes with (one hour)",
            f"set it to {PUSH_TOKEN_SECS} or less, or accept that late pushes fail",
        )
    if worker.lease_secs < 2 * worker.heartbeat_secs:
        yield error(
            "worker.lease_secs",
            "is shorter than two heartbeats, so live work would be taken away",
            "set it to three times worker.heartbeat_secs or more",
        )
    if worker.retry_cap_secs < worker.retry_base_secs:
        yield error("worker.retry_cap_secs", "is smaller than retry_base_secs", "raise the cap")


def _familiars(settings: Settings) -> Iterator[Finding]:
    familiars = settings.familiars
    if not familiars:
        yield error("familiars", "there is none", "add a [[familiars]] block")
    for twin in _twins(f.id for f in familiars):
        yield error("familiars[].id", f"{twin!r} is used twice", "give each familiar its own id")
    for twin in _twins(f.handle.casefold() for f in familiars):
        yield error(
            "familiars[].bot_username", f"{twin!r} is used twice", "one bot account per familiar"
        )
    for familiar in familiars:
        key = f"familiars[{familiar.id}]"
        if not familiar.bot_username.endswith("[bot]"):
            yield warning(
                f"{key}.bot_username",
                "does not end in [bot]",
                "use the login of the App's bot, such as cody-familiar[bot]",
            )
        if not familiar.trigger_labels:
            yield warning(
                f"{key}.trigger_labels", "is empty", "add a label, or accept starts by command only"
            )
    for twin in _twins(label.casefold() for f in familiars for label in f.trigger_labels):
        yield warning(
            "familiars[].trigger_labels",
            f"label {twin!r} calls more than one familiar",
            "give each label to one familiar",
        )
    if settings.commands.alias.casefold() in {f.handle.casefold() for f in familiars}:
        yield warning("commands.alias", "is also the handle of a familiar", "choose another alias")


def _review(settings: Settings) -> Iterator[Finding]:
    known = {familiar.id for familiar in settings.familiars}
    policies = [("review", settings.review.pull_request, settings.review.familiar)]
    for name in settings.review.repos:
        key = f'review.repos."{name}"'
        repo = _repo(name)
        if repo is None:
            yield error(key, "is no repository name", 'write it like "owner/name"')
            continue
        policy = settings.review.for_repo(repo)
        policies.append((key, policy.pull_request, policy.familiar))
    for key, on, familiar in policies:
        if on and familiar is None:
            yield error(f"{key}.familiar", "is not set, but reviews are on", "name the reviewer")
        elif familiar is not None and familiar not in known:
            yield error(f"{key}.familiar", f"there is no familiar {familiar!r}", _one_of(known))


def _services(settings: Settings) -> Iterator[Finding]:
    if settings.queue.broker_url is not None:
        scheme = settings.queue.broker_url.get_secret_value().partition("://")[0]
        if scheme not in {"redis", "rediss", "redis+socket", "sentinel"}:
            yield error(
                "queue.broker_url", "is no Redis address", "write it like redis://HOST:6379/0"
            )
    if settings.storage.database_url is not None:
        scheme = settings.storage.database_url.get_secret_value().partition("://")[0]
        if scheme not in {"postgresql+psycopg", "sqlite"}:
            yield error(
                "storage.database_url",
                "names neither PostgreSQL nor SQLite",
                "write it like postgresql+psycopg://USER@HOST/NAME",
            )


def _memory(settings: Settings) -> Iterator[Finding]:
    memory = settings.memory
    overrides = list(memory.repos.values())
    on = memory.enabled or any(o.enabled for o in overrides)
    yield from _repo_keys("memory.repos", memory.repos)
    for twin in _twins(name.casefold() for name in memory.repos):
        yield error(
            f'memory.repos."{twin}"', "is there in two spellings", "merge the two: case is ignored"
        )
    hosted = settings.server.deployment == "hosted"
    if hosted and memory.self_hosted:
        yield warning("memory.self_hosted", "has no effect on a hosted server", "remove it")
    if hosted and memory.enabled:
        yield warning(
            "memory.enabled",
            "is on for the repositories of every installation, whether they asked for it or not",
            'leave it false and set memory.repos."owner/name".enabled = true where it is wanted',
        )
    if not on:
        return
    if not memory.approval_required or any(o.approval_required is False for o in overrides):
        yield warning(
            "memory.approval_required",
            "is off, so what a familiar learns is used without anybody having looked",
            "keep it true, or accept that",
        )
    if not hosted and not memory.self_hosted:
        yield warning(
            "memory.enabled",
            "has no effect on a self-hosted server by itself",
            "set memory.self_hosted = true too, or switch memory off",
        )


def _gardener(settings: Settings) -> Iterator[Finding]:
    gardener = settings.gardener
    yield from _repo_keys("gardener.repos", gardener.repos)
    rows = [("gardener", gardener.enabled, gardener.schedule, gardener.exclude)]
    for name, override in gardener.repos.items():
        on = gardener.enabled if override.enabled is None else override.enabled
        key = f'gardener.repos."{name}"'
        rows.append((key, on, override.schedule or gardener.schedule, override.exclude or ()))
    for key, on, schedule, exclude in rows:
        match = _CRON.match(schedule)
        if match is None or int(match[1]) > 59 or int(match[2]) > 23:
            yield error(
                f"{key}.schedule", f"{schedule!r} is no daily time", 'write "MINUTE HOUR * * *"'
            )
        for pattern in exclude:
            if on and "*" in pattern[:-1]:
                yield warning(
                    f"{key}.exclude",
                    f"{pattern!r} has a * that is taken literally",
                    "use plain text, one trailing *, or * alone",
                )


def _api(settings: Settings) -> Iterator[Finding]:
    api = settings.api
    tokens = [("api.tenants[].token", tenant.token) for tenant in api.tenants]
    if api.service_token is not None:
        tokens.append(("api.service_token", api.service_token))
    if api.mode == "open":
        if _is_loopback(settings.server.bind):
            yield warning(
                "api.mode",
                "open lets everybody on this machine read",
                'set api.mode = "token", or accept that',
            )
        else:
            yield error(
                "api.mode",
                f"open works on a loopback address only, and server.bind is {settings.server.bind}",
                'set api.mode = "token", or server.bind = "127.0.0.1:8080"',
            )
        if settings.billing.require_plan:
            yield warning(
                "billing.require_plan", "means little with an open API", 'set api.mode = "token"'
            )
    for key, token in tokens:
        yield from _short(key, [token])
    if _twins(token.get_secret_value() for _, token in tokens):
        yield error("api.tenants[].token", "is used twice", f"one token each; {_GENERATE}")
    known = {installation.id for installation in settings.installations}
    for tenant in api.tenants:
        if known and tenant.installation_id not in known:
            yield error(
                "api.tenants[].installation_id",
                f"there is no installation {tenant.installation_id}",
                _one_of(map(str, known)),
            )
        for name in tenant.repos:
            if _repo(name) is None:
                yield error("api.tenants[].repos", "holds no repository name", 'write "owner/name"')


def _installations(settings: Settings) -> Iterator[Finding]:
    known = {familiar.id for familiar in settings.familiars}
    for twin in _twins(i.id for i in settings.installations):
        yield error("installations[].id", f"{twin} is used twice", "merge the two blocks")
    for installation in settings.installations:
        key = f"installations[{installation.id}]"
        for familiar in installation.familiars:
            if familiar not in known:
                yield error(
                    f"{key}.familiars", f"there is no familiar {familiar!r}", _one_of(known)
                )
        for name, override in installation.repos.items():
            for familiar in override.familiars or ():
                if familiar not in known:
                    yield error(
                        f'{key}.repos."{name[:80]}".familiars',
                        f"there is no familiar {familiar!r}",
                        _one_of(known),
                    )
        named = [name for name in installation.repos if not name.isdigit()]
        yield from _repo_keys(f"{key}.repos", named)


def _governance(settings: Settings) -> Iterator[Finding]:
    governance, hosted = settings.governance, settings.server.deployment == "hosted"
    if governance.active and governance.mode == "unsigned-dev":
        make = error if hosted else warning
        yield make(
            "governance.mode",
            "unsigned-dev lets whoever writes the database change the rules",
            'set it to "signed" and run `coven-github identity generate`',
        )
    if (
        governance.active
        and settings.worker.workspace_root
        and is_volatile(settings.workspace_root)
    ):
        yield error(
            "worker.workspace_root",
            f"{settings.workspace_root} is where the shipped rules R001 and R002 refuse writes",
            "use a folder on a lasting disk, such as /var/lib/coven-github/workspaces",
        )
    for host in governance.model_hosts:
        if not host or "/" in host or ":" in host:
            yield error(
                "governance.model_hosts", f"{host[:80]!r} is no host name", "write the bare host"
            )


def _repo_keys(key: str, names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        if _repo(name) is None:
            yield error(
                f'{key}."{name[:80]}"', "is no repository name", 'write it like "owner/name"'
            )


def _repo(name: str) -> RepoName | None:
    try:
        return RepoName.parse(name)
    except ValueError:
        return None


def _short(key: str, secrets: Iterable[SecretStr]) -> Iterator[Finding]:
    if any(len(secret.get_secret_value()) < MIN_SECRET_CHARS for secret in secrets):
        yield warning(key, f"is shorter than {MIN_SECRET_CHARS} characters", _GENERATE)


def _twins(values: Iterable[object]) -> list[object]:
    return [value for value, count in Counter(values).items() if count > 1]


def _one_of(known: Iterable[str]) -> str:
    names = sorted(known)
    return f"use one of: {', '.join(names)}" if names else "configure it first"


def _is_loopback(bind: str) -> bool:
    host = bind.rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")


def _is_web_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
