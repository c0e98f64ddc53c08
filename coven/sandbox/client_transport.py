"""How the admin client talks: one request for each action, typed answers."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Literal

import requests

JSON = dict[str, Any]
Deliver = bool | Literal["lost", "form"]
Files = dict[str, "str | bytes | JSON | None"]
"""Path to text, bytes, None (delete) or ``{"mode": "120000", "content": "target"}``."""

TIMEOUT = 60.0


class SandboxRefused(Exception):
    """The sandbox refused an action; the message is its reason."""


@dataclass(frozen=True)
class Delivered:
    """One attempt to deliver a webhook, and what the receiver said."""

    id: int
    guid: str
    event: str
    action: str | None
    status: str
    status_code: int
    seconds: float
    response: str
    redelivery: bool = False


@dataclass
class Done:
    """What an action made (as the REST API shows it), and the deliveries it sent."""

    result: Any
    deliveries: list[Delivered] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Number of the issue or pull request."""
        return int(self.result["number"])

    @property
    def id(self) -> int:
        """Id of the object."""
        return int(self.result["id"])

    @property
    def delivered(self) -> Delivered:
        """The last delivery."""
        return self.deliveries[-1]


def packed(files: Files | None) -> JSON | None:
    """Files as JSON; bytes as base64."""
    if files is None:
        return None
    packed: JSON = {}
    for path, content in files.items():
        if isinstance(content, bytes):
            content = {"base64": base64.b64encode(content).decode()}
        packed[path] = content
    return packed


class Transport:
    """Speaks the admin API. Methods raise SandboxRefused with the reason."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """One request below ``/_sandbox/``; its JSON."""
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, f"{self.base_url}/_sandbox/{path}", timeout=TIMEOUT, **kwargs
            )
        if answer.status_code >= 400:
            raise SandboxRefused(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def act(self, action: str, *, deliver: Deliver = False, **body: Any) -> Done:
        """Any action by name."""
        sent = {key: value for key, value in body.items() if value is not None}
        answer = self.request("POST", action, json={**sent, "deliver": deliver})
        return Done(answer["result"], [Delivered(**one) for one in answer["deliveries"]])
