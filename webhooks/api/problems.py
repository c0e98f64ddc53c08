"""Refusals as problem details (RFC 9457), with the ``ok`` and ``error`` of every other answer.

``detail`` names what was wrong and what to do about it.
"""

from __future__ import annotations

from http import HTTPStatus

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that is refused. ``code`` is one word for programs; ``field`` what it is about."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.headers = headers or {}

    def body(self) -> dict[str, object]:
        """The JSON to send."""
        facts: dict[str, object] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "ok": False,
            "error": self.code,
        }
        if self.field is not None:
            facts["field"] = self.field
        return facts


def unauthorized(detail: str) -> Problem:
    """Nobody we know."""
    challenge = {"WWW-Authenticate": 'Bearer realm="coven-github"'}
    return Problem(401, "unauthorized", detail, headers=challenge)


def not_found() -> Problem:
    """The same words for what does not exist and for what belongs to somebody else."""
    return Problem(404, "not_found", "there is nothing here that this token may see")


def bad_field(field: str, why: str, code: str = "bad_value") -> Problem:
    """A parameter or a key of the body that can't be used."""
    name = printable(field)
    return Problem(400, code, f"{name}: {why}", field=name)


def unavailable(code: str, detail: str) -> Problem:
    """Not now; the same request may work later."""
    return Problem(503, code, detail, headers={"Retry-After": "5"})


def printable(text: str, limit: int = 80) -> str:
    """A name from outside, short and without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text[:limit])
