"""Which action exactly an approval is for. Pure, and quick to load: the hook needs it too."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from coven.governance.actions import Action, action_json
from coven.governance.context import Acting
from coven.governance.strict_json import canonical

_ATTEMPT = "${attempt}"
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def action_digest(action: Action, who: Acting) -> str:
    """Which action exactly an approval is for, the same in every attempt of a task; hex."""
    return digest_of(action, who.namespace, who.task_id, who.head_sha, who.attempts_root)


def digest_of(
    action: Action,
    namespace: str,
    task_id: str | None,
    head_sha: str | None,
    attempts_root: Path | None,
) -> str:
    """As :func:`action_digest`, by the facts that it is made of.

    The folder of an attempt has a random name, and the size of a file may vary: neither is what a
    person approves.
    """
    value = {name: item for name, item in action_json(action).items() if name != "byte_estimate"}
    if attempts_root is not None:
        pattern = re.compile(re.escape(str(attempts_root)) + r"/[^/\s\"]+")
        value = _replaced(value, pattern)
    bound = {"action": value, "namespace": namespace, "task_id": task_id, "head_sha": head_sha}
    return hashlib.sha256(canonical(bound)).hexdigest()


def asking_id(digest: str, rule_id: str, attempt: str) -> str:
    """The id of the escalation that a session of this attempt asks for: ``E-`` and eight letters.

    Hook and worker find it by themselves, so that the hook can name what the worker writes later.
    """
    number = int.from_bytes(hashlib.sha256(f"{attempt}\0{rule_id}\0{digest}".encode()).digest()[:5])
    return "E-" + "".join(_ALPHABET[number >> 5 * place & 31] for place in range(8))


def _replaced(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(_ATTEMPT, value)
    if isinstance(value, dict):
        return {key: _replaced(item, pattern) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, pattern) for item in value]
    return value
