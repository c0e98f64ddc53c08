"""What all contract models share: closed, frozen, no coercion."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_REPORTED = 3
_PLAIN_NAME = re.compile(r"[A-Za-z_\-]{1,40}")


class Closed(BaseModel):
    """A model with exactly the fields of the contract; a number is never read as a string."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def field_problems(error: ValidationError) -> str:
    """The first problems of a failed validation as one line, without the values themselves."""
    listed = []
    details = error.errors(include_url=False, include_input=False, include_context=False)
    for detail in details[:MAX_REPORTED]:
        where = ".".join(_safe(part) for part in detail["loc"]) or "document"
        listed.append(f"{where}: {detail['msg'].removeprefix('Value error, ')}")
    if len(details) > MAX_REPORTED:
        listed.append(f"and {len(details) - MAX_REPORTED} more")
    return "; ".join(listed)


def _safe(part: Any) -> str:
    return str(part) if isinstance(part, int) else key_name(str(part))


def key_name(key: str) -> str:
    """A key as it may be shown: a runtime may put anything there, a token too."""
    return key if _PLAIN_NAME.fullmatch(key) else "(odd name)"


def printable(text: str, limit: int) -> str:
    """``text`` as printable ASCII of at most ``limit`` characters, for messages."""
    plain = text[:limit].encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(char if char.isprintable() else "?" for char in plain)
    return plain if len(text) <= limit and len(plain) <= limit else plain[:limit] + "..."
