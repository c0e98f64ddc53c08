"""What an endpoint gives back: an answer, or an error in GitHub's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coven.sandbox.state import JSON

DOCS = "https://docs.github.com/rest"
BODY_LIMIT = 65_536


@dataclass
class Answer:
    """A JSON answer; ``data`` None sends no body."""

    data: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class ApiError(Exception):
    """A refusal with status, message and, for 422, the list of errors."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: list[Any] | None = None,
        headers: dict[str, str] | None = None,
        extra: JSON | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}
        self.extra = extra or {}

    def answer(self) -> Answer:
        """The JSON that GitHub sends with such an error."""
        data: JSON = {
            "message": self.message,
            "documentation_url": DOCS,
            "status": str(self.status),
        }
        if self.errors is not None:
            data["errors"] = self.errors
        data.update(self.extra)
        return Answer(data, self.status, dict(self.headers))


def not_found() -> ApiError:
    """Gone, never there, or not yours to see."""
    return ApiError(404, "Not Found")


def invalid(resource: str, field_name: str, code: str = "invalid", message: str = "") -> ApiError:
    """422 with one error about one field."""
    error: JSON = {"resource": resource, "field": field_name, "code": code}
    if message:
        error["message"] = message
    return ApiError(422, "Validation Failed", errors=[error])


def unprocessable(message: str, *errors: Any) -> ApiError:
    """422 in free words, as the younger endpoints do it."""
    return ApiError(422, message, errors=list(errors) or None)


def checked_body(value: Any, resource: str, *, required: bool = True) -> str:
    """A Markdown body within GitHub's limit of 65 536 characters."""
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise invalid(resource, "body", "missing_field" if value is None else "invalid")
    if required and not value.strip():
        raise ApiError(
            422,
            "Validation Failed",
            errors=[
                {
                    "resource": resource,
                    "field": "data",
                    "code": "unprocessable",
                    "message": "Body cannot be blank",
                }
            ],
        )
    if len(value) > BODY_LIMIT:
        raise invalid(
            resource, "body", "custom", f"body is too long (maximum is {BODY_LIMIT} characters)"
        )
    if "\0" in value:
        raise invalid(resource, "body", "invalid", "contains null bytes")
    return value
