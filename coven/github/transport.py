"""One HTTP request to GitHub, through PyGithub's requester with its habits taken away.

Left to itself PyGithub repeats POSTs after a 5xx, sleeps inside a call, keeps one request's state
on a shared connection (so two threads may send each other's request), follows a 301 without its
query and logs bodies. Here each call has its own requester and its own connection object on a
shared pool, so none of that can happen; what is kept is its way of building a request.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import ItemsView, Mapping
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
from github.Auth import AppAuthToken
from github.Requester import Requester
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as Urllib3Timeout

from coven.clock import Clock
from coven.errors import GitHubRejected, GitHubUnavailable
from coven.github.failures import scrub
from coven.governance.wire import Seam, governed_request
from coven.metrics import GITHUB_CALLS, GITHUB_TIME, Meter

CONNECT_SECS = 3.0
MAX_BODY_BYTES = 32 * 2**20
MAX_HOPS = 3
_REDIRECTS = {301, 302, 303, 307, 308}
_SAFE = {"GET", "HEAD"}


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask. ``path`` starts with a slash and is relative to the API root."""

    operation: str
    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None
    accept: str = "application/vnd.github+json"


@dataclass(frozen=True, slots=True)
class Response:
    """What GitHub answered; ``body`` is None for an empty one, a text when it is not JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Transport:
    """Sends requests to one API root. Safe for threads, and after a fork."""

    def __init__(
        self,
        root: str,
        *,
        user_agent: str,
        api_version: str,
        clock: Clock,
        seam: Seam,
        meter: Meter | None = None,
    ) -> None:
        self._root = root
        self._meter = meter or Meter()
        self._prefix = urlsplit(root).path.rstrip("/")
        self._user_agent = user_agent
        self._api_version = api_version
        self._clock = clock
        self._seam = seam
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._pid = 0

    def send(self, request: Request, credential: str | None, deadline: float) -> Response:
        """Send once, following moved repositories with the same method and body.

        ``credential`` is a JWT or token; ``deadline`` is on the clock's monotonic scale and covers
        all hops. Raises ``GitHubUnavailable`` for no answer, ``GitHubRejected`` for a redirection
        that leaves this API, ``GovernanceRefused``.
        """
        path, query = request.path, request.query
        for _ in range(MAX_HOPS + 1):
            answer = self._measured_hop(request, path, query, credential, deadline)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            if answer.status in {302, 303} and request.method not in _SAFE:
                return answer
            path, query = self._moved_to(request, location), None
        raise GitHubRejected(f"github.{request.operation}: redirected in a circle", status=310)

    def _measured_hop(
        self,
        request: Request,
        path: str,
        query: Mapping[str, str] | None,
        credential: str | None,
        deadline: float,
    ) -> Response:
        began, status = self._clock.monotonic(), "none"
        try:
            answer = self._one_hop(request, path, query, credential, deadline)
            status = str(answer.status)
            return answer
        finally:
            # The operation stands for the route: one name for each in the code, no ids in it.
            self._meter.count(GITHUB_CALLS, request.operation, status)
            self._meter.observe(GITHUB_TIME, self._clock.monotonic() - began)

    def _one_hop(
        self,
        request: Request,
        path: str,
        query: Mapping[str, str] | None,
        credential: str | None,
        deadline: float,
    ) -> Response:
        exchange = _Exchange(self._pool(), self._clock, deadline)
        requester = _Quiet(
            auth=AppAuthToken(credential) if credential else None,
            base_url=self._root,
            timeout=1,  # never used: the exchange has its own
            user_agent=self._user_agent,
            per_page=100,
            verify=True,
            retry=None,
            pool_size=None,
            api_version=self._api_version,
        )

        def effect() -> None:
            with contextlib.suppress(_Answered):
                requester.requestJson(
                    request.method,
                    path,
                    dict(query) if query else None,
                    {"Accept": request.accept},
                    dict(request.body) if request.body is not None else None,
                    cnx=exchange,  # type: ignore[arg-type]
                )

        exchange.base = f"{urlsplit(self._root).scheme}://{urlsplit(self._root).netloc}"
        live = (credential,) if credential else ()
        try:
            governed_request(
                self._seam,
                request.method,
                f"{self._root}{path}",
                effect,
                point=f"github.{request.operation}",
            )
        except (requests.RequestException, HTTPError, OSError) as error:
            # The cause holds the request with its credential: it must not travel along.
            reason = scrub(_reason(error), live)
            raise GitHubUnavailable(f"github.{request.operation}: {reason}") from None
        if exchange.answer is None:
            raise GitHubUnavailable(f"github.{request.operation}: no answer")
        return exchange.answer

    def _moved_to(self, request: Request, location: str) -> str:
        here, there = urlsplit(self._root), urlsplit(location)
        same_host = (there.scheme, there.netloc) == (here.scheme, here.netloc)
        relative = not there.scheme and not there.netloc
        if not (same_host or relative) or not there.path.startswith(f"{self._prefix}/"):
            raise GitHubRejected(
                f"github.{request.operation}: redirected away from this API to "
                f"{scrub(there.netloc or there.path)}; check github.api_base_url",
                status=301,
            )
        path = there.path[len(self._prefix) :]
        return f"{path}?{there.query}" if there.query else path

    def _pool(self) -> requests.Session:
        with self._lock:
            if self._session is None or self._pid != os.getpid():
                # Sockets of a parent process must never be shared with it.
                session = requests.Session()
                session.auth = _as_is
                session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
                adapter = HTTPAdapter(pool_connections=4, pool_maxsize=32, max_retries=0)
                session.mount("https://", adapter)
                session.mount("http://", adapter)
                self._session, self._pid = session, os.getpid()
            return self._session


class _Answered(Exception):
    """Not an error: leaves PyGithub with the answer in hand."""


class _Quiet(Requester):
    """Never logs: PyGithub would write bodies at debug level."""

    @property
    def _logger(self) -> logging.Logger:
        return logging.Logger("silent", logging.CRITICAL + 1)


class _Exchange:
    """Takes the request that PyGithub built, performs it once and keeps the answer.

    PyGithub takes any object of this shape as a connection (``Requester.requestJson(cnx=…)``). It
    never sees the answer, so it can neither retry, sleep, redirect nor raise its own errors.
    """

    def __init__(self, session: requests.Session, clock: Clock, deadline: float) -> None:
        self.base = ""
        self.answer: Response | None = None
        self._session = session
        self._clock = clock
        self._deadline = deadline
        self._request: tuple[str, str, Any, dict[str, str]] | None = None

    def request(
        self, verb: str, url: str, input: Any, headers: dict[str, str], stream: bool = False
    ) -> None:
        self._request = (verb, url, input, headers)

    def getresponse(self) -> _NeverUsed:
        assert self._request is not None
        verb, url, body, headers = self._request
        left = self._left()
        with self._session.request(
            verb,
            f"{self.base}{url}",
            headers=headers,
            data=body.encode() if isinstance(body, str) else body,
            timeout=(min(CONNECT_SECS, left), left),
            allow_redirects=False,
            stream=True,
        ) as response:
            data = self._read(response)
            self.answer = Response(
                status=response.status_code,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=_decode(data),
            )
        raise _Answered

    def _read(self, response: requests.Response) -> bytes:
        # The time-out of the socket counts from byte to byte; a trickle must still end in time.
        data = bytearray()
        while True:
            _limit_socket(response, self._left())
            chunk = response.raw.read1(64 * 1024, decode_content=True)
            if not chunk:
                return bytes(data)
            data += chunk
            if len(data) > MAX_BODY_BYTES:
                raise OSError(f"answer larger than {MAX_BODY_BYTES} bytes")

    def _left(self) -> float:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _NeverUsed:
    status: int
    headers: Mapping[str, str]

    def getheaders(self) -> ItemsView[str, str]:
        raise NotImplementedError

    def read(self) -> str:
        raise NotImplementedError


def _limit_socket(response: requests.Response, seconds: float) -> None:
    connection = getattr(response.raw, "connection", None)
    sock = getattr(connection, "sock", None)
    if isinstance(sock, socket.socket):
        sock.settimeout(seconds)


def _as_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    # An explicit auth keeps requests from reading a .netrc of this machine.
    return request


def _decode(data: bytes) -> Any:
    if not data:
        return None
    text = data.decode("utf-8", errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text[:4096]


def _reason(error: Exception) -> str:
    if isinstance(error, requests.ConnectTimeout):
        return "connecting timed out"
    if isinstance(error, (requests.Timeout, TimeoutError, Urllib3Timeout)):
        return "timed out"
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS: {error}"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy can't be reached or refused"
    if isinstance(error, requests.ConnectionError):
        # urllib3 keeps the driver's words in the reason of its own error.
        inner = error.args[0] if error.args else None
        words = str(getattr(inner, "reason", None) or inner or "").rpartition(": ")[2]
        return f"can't connect, or the connection broke: {words}"
    return f"{type(error).__name__}: {error}"
