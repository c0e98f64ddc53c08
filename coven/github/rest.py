"""One REST call: send it, and turn what comes back into an answer or one of our errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coven.clock import Clock
from coven.errors import GitHubUnavailable
from coven.github.failures import Answer, failure, message_of
from coven.github.transport import Request, Response, Transport

T = TypeVar("T")


class Rest:
    """Calls over one transport. Never retries and never sleeps."""

    def __init__(self, transport: Transport, clock: Clock, timeout_secs: float) -> None:
        self._transport = transport
        self._clock = clock
        self._timeout_secs = timeout_secs

    def deadline(self, timeout_secs: float | None = None) -> float:
        """When a call that starts now must be over, on the monotonic clock."""
        return self._clock.monotonic() + (timeout_secs or self._timeout_secs)

    def call(
        self,
        request: Request,
        credential: str | None,
        deadline: float,
        *,
        app_auth: bool = False,
        minting: bool = False,
    ) -> Response:
        """The answer of a call that succeeded (2xx). Raises a subclass of ``GitHubError``."""
        response = self._transport.send(request, credential, deadline)
        if response.status >= 300:
            raise failure(
                Answer(
                    operation=request.operation,
                    status=response.status,
                    headers=response.headers,
                    message=message_of(response.body, (credential,) if credential else ()),
                    now=self._clock.now(),
                    app_auth=app_auth,
                    minting=minting,
                )
            )
        if isinstance(response.body, str):
            raise GitHubUnavailable(
                f"github.{request.operation}: answered {response.status} with something that is "
                "not JSON; is a proxy or login page in between?",
                status=response.status,
            )
        if response.status == 202 and request.method == "GET":
            raise GitHubUnavailable(
                f"github.{request.operation}: GitHub is still computing the answer",
                status=response.status,
                retry_after=2,
            )
        return response


def understood(operation: str, read: Callable[[], T]) -> T:
    """``read()``, where an answer of another shape than documented becomes our error.

    Raises ``GitHubUnavailable``: if this was a write, it has happened.
    """
    try:
        return read()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise GitHubUnavailable(
            f"github.{operation}: answered in an unexpected form ({str(error)[:200]})", status=200
        ) from error


def each(
    operation: str, body: Any, read: Callable[[dict[str, Any]], T], key: str | None = None
) -> list[T]:
    """Every entry of the list in an answer (under ``key`` where it is wrapped), read by ``read``.

    Raises ``GitHubUnavailable``.
    """
    items = body.get(key) if key is not None and isinstance(body, dict) else body
    if not isinstance(items, list):
        raise GitHubUnavailable(f"github.{operation}: answered without a list", status=200)
    return understood(operation, lambda: [read(item) for item in items])
