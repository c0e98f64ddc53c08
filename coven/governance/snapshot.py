"""The policy as a confined session carries it: one signed file, no database. Pure.

The file is canonical JSON whose member ``sig`` is the service key's Ed25519 signature over the
others. It holds the rules that bind the session, where it stands, and no secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coven.errors import GovernanceRefused
from coven.governance.actions import Action, Kind
from coven.governance.digest import asking_id, digest_of
from coven.governance.policy import Policy, Verdict, build_policy
from coven.governance.rules import Rule, Severity, namespace_segments
from coven.governance.shapes import InvalidMatcher, Templates
from coven.governance.signing import PublicKeys, Signer, message
from coven.governance.strict_json import JsonRefused, JsonValue, canonical, loads
from coven.governance.world import Origin, Scope, World

SNAPSHOT_DOMAIN = "coven-github/governance-snapshot/v1"
VERSION = 1

CANARY_TOOL = "GovernanceCanary"
"""A tool that does not exist and that every snapshot refuses: asked before each session."""

_CANARY = Rule(
    id="canary",
    kind=Kind.CUSTOM,
    matcher={"kind": "tool_call", "where": [{"pointer": "/tool_name", "equals": CANARY_TOOL}]},
    severity=Severity.REFUSE,
    reason="the hook is at work",
)


@dataclass(frozen=True, slots=True)
class Approved:
    """A person's approval of one action, for this session and once."""

    id: str
    digest: str
    rule_id: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What approvals are bound to, and the ones that this session may use."""

    head_sha: str | None = None
    attempts_root: str | None = None
    attempt: str = ""
    """Name of the attempt's folder."""
    approved: tuple[Approved, ...] = ()


class SnapshotUnusable(GovernanceRefused):
    """The file is not what the worker wrote, so nothing is allowed."""

    code = "governance:policy_tampered"


@dataclass(frozen=True)
class Snapshot:
    """What the hook judges by."""

    epoch: int
    rules: tuple[Rule, ...]
    templates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[Kind, Verdict] = field(default_factory=dict)
    namespace: str = "_global"
    task_id: str | None = None
    workspace: str | None = None
    """The checkout of the session, where its commands start."""
    home: str | None = None
    binding: Binding = Binding()

    def policy(self, world: World) -> Policy:
        """Ready to be asked. Raises ``PolicyCorrupt``."""
        return build_policy(
            self.rules,
            templates=Templates(self.templates),
            physical=world.physical,
            epoch=self.epoch,
            defaults=self.defaults,
        )

    def digest(self, action: Action) -> str:
        """Which action exactly it is, for approvals."""
        root = self.binding.attempts_root
        return digest_of(
            action,
            self.namespace,
            self.task_id,
            self.binding.head_sha,
            Path(root) if root else None,
        )

    def asking(self, action: Action, rule_id: str) -> str:
        """The id of the request for approval that a refused call becomes."""
        return asking_id(self.digest(action), rule_id, self.binding.attempt)

    def approval(self, action: Action, rule_id: str) -> Approved | None:
        """The approval of exactly this action."""
        digest = self.digest(action)
        return next(
            (
                one
                for one in self.binding.approved
                if (one.digest, one.rule_id) == (digest, rule_id)
            ),
            None,
        )

    def scope(self, cwd: str | None, tool_use_id: str | None = None) -> Scope:
        """Where a tool call of the session belongs."""
        return Scope(
            Origin.TOOL,
            self.namespace,
            self.task_id,
            tool_use_id,
            cwd=cwd or self.workspace,
            workspace=self.workspace,
        )


def of_policy(
    policy: Policy,
    *,
    namespace: str,
    task_id: str | None,
    workspace: str,
    home: str,
    templates: Mapping[str, Sequence[str]],
    binding: Binding | None = None,
) -> Snapshot:
    """The rules of a proven policy that bind tool calls of this session, and the canary."""
    segments = namespace_segments(namespace)
    bound = [
        compiled.rule
        for rules in policy.by_kind.values()
        for compiled in rules
        if compiled.origin is not Origin.ADAPTER
        and segments[: len(compiled.segments)] == compiled.segments
    ]
    return Snapshot(
        policy.epoch,
        (*sorted(bound, key=lambda rule: rule.id), _CANARY),
        templates,
        policy.defaults,
        namespace,
        task_id,
        workspace,
        home,
        binding or Binding(),
    )


def seal(snapshot: Snapshot, signer: Signer) -> bytes:
    """The bytes of the file."""
    body: dict[str, JsonValue] = {
        "v": VERSION,
        "epoch": snapshot.epoch,
        "rules": [
            {
                "id": rule.id,
                "kind": str(rule.kind),
                "matcher": rule.matcher,
                "severity": str(rule.severity),
                "reason": rule.reason,
                "namespace": rule.namespace,
                "revision": rule.revision,
            }
            for rule in snapshot.rules
        ],
        "templates": {name: list(values) for name, values in snapshot.templates.items()},
        "defaults": {str(kind): str(verdict) for kind, verdict in snapshot.defaults.items()},
        "namespace": snapshot.namespace,
        "task_id": snapshot.task_id,
        "workspace": snapshot.workspace,
        "home": snapshot.home,
        "head_sha": snapshot.binding.head_sha,
        "attempts_root": snapshot.binding.attempts_root,
        "attempt": snapshot.binding.attempt,
        "approved": [[one.id, one.digest, one.rule_id] for one in snapshot.binding.approved],
        "key_id": signer.key_id,
    }
    signature = signer.sign(message(SNAPSHOT_DOMAIN, body))
    return canonical({**body, "sig": base64.b64encode(signature).decode("ascii")})


def unseal(data: bytes, keys: PublicKeys) -> Snapshot:
    """Read the file back. Raises ``SnapshotUnusable`` unless one of ``keys`` signed exactly it."""
    try:
        body = loads(data)
        if not isinstance(body, dict) or body.get("v") != VERSION:
            raise SnapshotUnusable("the policy of this session has an unknown form")
        signature = base64.b64decode(str(body.pop("sig", "")), validate=True)
        if not keys.verify(str(body.get("key_id")), signature, message(SNAPSHOT_DOMAIN, body)):
            raise SnapshotUnusable("the policy of this session is not signed by its worker")
        return Snapshot(
            int(body["epoch"]),
            tuple(Rule.read(row) for row in body["rules"]),
            body["templates"],
            {Kind(kind): Verdict(verdict) for kind, verdict in body["defaults"].items()},
            body["namespace"],
            body["task_id"],
            body["workspace"],
            body["home"],
            Binding(
                body["head_sha"],
                body["attempts_root"],
                body["attempt"],
                tuple(Approved(*one) for one in body["approved"]),
            ),
        )
    except (JsonRefused, InvalidMatcher, KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotUnusable(f"the policy of this session can't be read ({error})") from error


__all__ = [
    "CANARY_TOOL", "Approved", "Binding", "Snapshot", "SnapshotUnusable", "of_policy",
    "seal", "unseal",
]  # fmt: skip
