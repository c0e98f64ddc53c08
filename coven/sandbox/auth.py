"""Who calls: the App by its JWT, or an installation by its token."""

from __future__ import annotations

import base64
import binascii
import time
from typing import Any

import jwt

from coven.sandbox.answers import ApiError
from coven.sandbox.hub import Hub
from coven.sandbox.state import App

MAX_LIFETIME = 600
"""``exp`` may lie this many seconds ahead, by the server's clock."""
MAX_SKEW = 60
RANK = {"none": 0, "read": 1, "write": 2, "admin": 3}


def bearer(header: str) -> str | None:
    """The credential of an ``Authorization`` header: Bearer, token, or Basic's password."""
    kind, _, rest = header.partition(" ")
    if kind.casefold() in ("bearer", "token") and rest.strip():
        return rest.strip()
    if kind.casefold() == "basic":
        try:
            plain = base64.b64decode(rest.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return plain.partition(":")[2] or None
    return None


def check_jwt(hub: Hub, header: str) -> App:
    """The App behind a JWT, by GitHub's rules for its claims and algorithm; else 401."""
    credential = bearer(header)
    undecodable = ApiError(401, "A JSON web token could not be decoded")
    if credential is None:
        raise undecodable
    app = hub.app
    assert app.public_key is not None
    try:
        claims: dict[str, Any] = jwt.decode(
            credential,
            app.public_key,
            algorithms=["RS256"],
            options={
                "verify_exp": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
            },
        )
    except jwt.PyJWTError as error:
        raise undecodable from error
    if str(claims.get("iss")) not in (str(app.id), app.client_id):
        raise ApiError(401, "Integration not found")
    now = time.time()
    issued, expires = claims.get("iat"), _number(claims.get("exp"))
    if expires <= now:
        raise ApiError(
            401,
            "'Expiration time' claim ('exp') must be a numeric value representing the future "
            "time at which the assertion expires",
        )
    if expires > now + MAX_LIFETIME:
        raise ApiError(401, "'Expiration time' claim ('exp') is too far in the future")
    if not isinstance(issued, int) or isinstance(issued, bool) or issued > now + MAX_SKEW:
        raise ApiError(
            401,
            "'Issued at' claim ('iat') must be an Integer representing the time that the "
            "assertion was issued",
        )
    return app


def _number(value: Any) -> float:
    """A numeric date; 0, which is long over, for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return 0.0


def allows(permissions: dict[str, str], needs: str) -> bool:
    """Whether granted permissions meet ``a=write,b=read;c=write`` (``;`` is *or*, ``,`` *and*)."""
    if not needs:
        return True
    for alternative in needs.split(";"):
        pairs = (part.strip().split("=") for part in alternative.split(","))
        if all(RANK[permissions.get(name, "none")] >= RANK[level] for name, level in pairs):
            return True
    return False
