"""What the doctor checks, by the id that its findings carry (``check`` in its JSON).

The loader adds one check for every key of the configuration: kind, range and known words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_INDEX = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r'\."[^"]*"')


def check_of(key: str) -> str:
    """The id of a finding's check: its key without the names that stand in it."""
    name = key.removeprefix("COVEN_GITHUB__").replace("__", ".")
    name = _NAME.sub('."owner/name"', _INDEX.sub("[]", name))
    return name.removesuffix("_file") if name not in CHECKS else name


CHECKS: Mapping[str, str] = MappingProxyType(
    {
        # the configuration by itself
        "server.bind": "HOST:PORT to listen on",
        "server.public_url": "an address for links; set on a hosted server",
        "server.flower_url": "an address",
        "server.cave_base_url": "an address",
        "server.state_dir": "on a lasting disk, writable, with room",
        "server.secret_key": "long enough",
        "github.app_id": "set, and the App of the key",
        "github.webhook_secret": "set, no placeholder, long enough",
        "github.private_key": "an RSA key that can be read",
        "github.private_key_path": "there, alone, and for nobody else",
        "worker.backend": "keeps sessions apart; its self-test passes",
        "worker.concurrency": "one or more",
        "worker.timeout_secs": "shorter than the tokens of its sessions live",
        "worker.lease_secs": "longer than two heartbeats",
        "worker.retry_cap_secs": "not below retry_base_secs",
        "worker.container.image": "named",
        "worker.container.docker_bin": "an installed program",
        "worker.coven_code_bin": "an installed program",
        "worker.workspace_root": "holds nothing that sessions would read; where no rule refuses it",
        "worker.profile": "the contract of its briefs and results, and the runtime's version",
        "familiars": "one at least",
        "familiars[].id": "given once",
        "familiars[].bot_username": "given once; a bot's login, this App's",
        "familiars[].trigger_labels": "some, and each for one familiar",
        "commands.alias": "nobody's handle",
        "review.familiar": "known, and set where reviews are on",
        'review.repos."owner/name"': "a repository's name",
        'review.repos."owner/name".familiar': "known, and set where reviews are on",
        "review.min_severity": "a known word",
        "review.publish": "a known word",
        "queue.broker_url": "a Redis address, or a server program here; external when hosted",
        "storage.database_url": "PostgreSQL or SQLite; PostgreSQL when hosted",
        "storage.path": "a file that lasts and can be written",
        "storage.task_retention_days": "one or more",
        "memory.enabled": "has an effect, and not on everybody",
        "memory.self_hosted": "has an effect",
        "memory.approval_required": "on",
        "memory.retention_days": "one or more",
        'memory.repos."owner/name"': "a repository's name, once",
        "gardener.schedule": "a daily time",
        "gardener.autonomy": "a known word",
        "gardener.exclude": "stars that mean something",
        'gardener.repos."owner/name"': "a repository's name",
        'gardener.repos."owner/name".schedule': "a daily time",
        'gardener.repos."owner/name".exclude': "stars that mean something",
        "api.mode": "open only on this machine",
        "api.service_token": "long enough, used once",
        "api.tenants[].token": "long enough, used once",
        "api.tenants[].installation_id": "a configured installation",
        "api.tenants[].repos": "names of repositories",
        "billing.require_plan": "together with tokens",
        "installations[].id": "given once",
        "installations[].familiars": "known",
        "installations[].limits": "one or more",
        'installations[].repos."owner/name"': "a repository's name",
        'installations[].repos."owner/name".familiars': "known",
        "governance.mode": "signed",
        "governance.model_hosts": "bare hosts",
        "metrics.token": "long enough",
        "metrics.allow": "networks",
        # this machine
        "git": "new enough",
        # --online
        "github.app": "GitHub answers, and knows the App",
        "github.clock": "this machine's clock is GitHub's",
        "github.permissions": "what is used, and no more",
        "github.events": "what is handled",
        "github.webhook": "GitHub tells the webhook's settings",
        "github.webhook_url": "set, with a secret, and this server's",
        "github.webhook_answer": "this server answers there, and refuses what is unsigned",
        "github.deliveries": "the last ones arrived",
        "github.installations": "some, with the permissions that the App asks for",
        "queue.broker": "answers",
        "storage.schema": "of this release, and writable",
        "governance": "the rules in force can be proven",
    }
)
"""Every check by its id, and what it wants."""
