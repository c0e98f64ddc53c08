"""A GitHub that answers exactly what a test says, over real HTTP on this machine."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from pydantic import SecretStr

from coven.clock import Clock, SystemClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.settings.models import GitHub as GitHubSettings
from coven.settings.models import Settings
from coven.values import InstallationId, RepoId, RepoName

INSTALLATION = InstallationId(41)
REPO_ID = RepoId(7)
REPO = RepoName("octo", "demo")
SHA = "a" * 40


@functools.cache
def private_key() -> rsa.RSAPrivateKey:
    """One key for all tests of a process: making one takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@functools.cache
def private_pem() -> str:
    """The key as GitHub hands it out."""
    raw = private_key().private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    )
    return raw.decode()


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    port: int = 0
    """Of the client: the same for requests on one connection."""


@dataclass(frozen=True)
class Answer:
    """What to answer. ``raw`` replaces the JSON body; ``write`` takes over the socket."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    write: Callable[[BaseHTTPRequestHandler], None] | None = None


Script = Callable[[Seen], Answer]


class ScriptedGitHub:
    """Answers from a queue per ``METHOD path``; the last answer of a queue stays."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.tokens_minted = 0
        self._answers: dict[str, list[Answer | Script]] = {}
        self._lock = threading.Lock()
        self.url = ""
        self.answer(f"POST /app/installations/{INSTALLATION}/access_tokens", self._mint)

    def answer(self, route: str, *answers: Answer | Script) -> None:
        """Set the answers of one route, such as ``GET /app``."""
        self._answers[route] = list(answers)

    def calls(self, route: str) -> list[Seen]:
        """The requests that arrived at a route."""
        return [seen for seen in self.seen if f"{seen.method} {seen.path}" == route]

    def respond(self, seen: Seen) -> Answer:
        """The next answer for a request."""
        with self._lock:
            self.seen.append(seen)
            queue = self._answers.get(f"{seen.method} {seen.path}")
            if not queue:
                return Answer(404, {"message": "Not Found"})
            chosen = queue.pop(0) if len(queue) > 1 else queue[0]
        return chosen(seen) if callable(chosen) else chosen

    def _mint(self, seen: Seen) -> Answer:
        with self._lock:
            self.tokens_minted += 1
            number = self.tokens_minted
        expires = datetime.now(UTC) + timedelta(hours=1)
        return Answer(
            201,
            {
                "token": f"ghs_scripted{number:04d}{'x' * 24}",
                "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "permissions": {"metadata": "read"} | seen.body["permissions"],
                "repository_selection": "selected",
                "repositories": [{"id": i} for i in seen.body["repository_ids"]],
            },
        )

    def github(
        self, *, clock: Clock | None = None, seam: Seam | None = None, **settings: Any
    ) -> GitHub:
        """A client of this server."""
        values: dict[str, Any] = {
            "app_id": 12,
            "private_key": SecretStr(private_pem()),
            "timeout_secs": 5,
        }
        chosen = GitHubSettings(**(values | {"api_base_url": self.url} | settings))
        return GitHub(Settings(github=chosen), clock or SystemClock(), seam or Seam())


@contextmanager
def scripted_github() -> Iterator[ScriptedGitHub]:
    """A running server; every request that it gets is kept in ``seen``."""
    hub = ScriptedGitHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            parts = urlsplit(self.path)
            seen = Seen(
                self.command,
                parts.path,
                {name: values[-1] for name, values in parse_qs(parts.query).items()},
                {name.lower(): value for name, value in self.headers.items()},
                json.loads(text) if text else None,
                self.client_address[1],
            )
            answer = hub.respond(seen)
            if answer.write is not None:
                answer.write(self)
                self.close_connection = True
                return
            body = answer.raw
            if body is None:
                body = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if answer.status != 204:
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            return None

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            return None  # a client that went away is part of many tests

    server = Server(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
