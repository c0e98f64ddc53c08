"""The sandbox as one process: REST, git, admin and pages on one port."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from coven.sandbox.admin import AdminApi
from coven.sandbox.deliveries import Deliverer
from coven.sandbox.git_http import GitHttp
from coven.sandbox.hub import Hub
from coven.sandbox.manifests import ManifestPages
from coven.sandbox.oauth import OAuthPages
from coven.sandbox.pages import Pages
from coven.sandbox.web import RestApi, install_hooks

APP_ID = 424242
SLUG = "cody-familiar"
MAX_BODY = 512 * 1024 * 1024


class _Quiet(WSGIRequestHandler):
    """The request log is our own; nothing goes to standard error."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Say nothing."""


class SandboxGitHub:
    """Builds the application over a state folder and serves it on loopback."""

    def __init__(
        self,
        state_dir: Path,
        *,
        port: int = 0,
        app_id: int = APP_ID,
        slug: str = SLUG,
        public_key: bytes | None = None,
    ) -> None:
        self.state_dir = state_dir.absolute()
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self.key_path: Path | None = None
        if public_key is None:
            public_key = self._make_key()
        self.flask = Flask("coven.sandbox", static_folder=None)
        self.flask.config["MAX_CONTENT_LENGTH"] = MAX_BODY
        self.flask.url_map.merge_slashes = False
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", port, self.flask, threaded=True, request_handler=_Quiet
        )
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self.port = self._server.port
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.hub = Hub(self.state_dir, self.base_url)
        self.hub.add_app(app_id, slug, slug.replace("-", " ").title(), public_key)
        self.deliverer = Deliverer(self.hub)
        self.hub.deliverer = self.deliverer
        api = RestApi(self.hub)
        api.register(self.flask)
        GitHttp(self.hub).register(self.flask)
        AdminApi(self.hub, self.deliverer).register(self.flask)
        pages = Pages(self.hub)
        pages.register(self.flask)
        ManifestPages(self.hub, pages).register(self.flask)
        OAuthPages(self.hub).register(self.flask)
        install_hooks(self.flask, self.hub, api)

    def _make_key(self) -> bytes:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        self.key_path = self.state_dir / "app.pem"
        self.key_path.touch(mode=0o600)
        self.key_path.write_bytes(pem)
        return key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def describe(self) -> dict[str, Any]:
        """What a client needs to know; written to ``sandbox.json`` in the state folder."""
        app = self.hub.app
        return {
            "base_url": self.base_url,
            "port": self.port,
            "app_id": app.id,
            "client_id": app.client_id,
            "slug": app.slug,
            "bot_login": f"{app.slug}[bot]",
            "bot_id": app.bot_id,
            "private_key_path": None if self.key_path is None else str(self.key_path),
        }

    def announce(self, port_file: Path | None = None) -> None:
        """Write ``sandbox.json``, and the port alone to ``port_file``; each at once, never half."""
        _put(self.state_dir / "sandbox.json", json.dumps(self.describe(), indent=1))
        if port_file is not None:
            _put(port_file, f"{self.port}\n")

    def serve(self) -> None:
        """Serve until :meth:`close`."""
        self._server.serve_forever(poll_interval=0.1)

    def start(self) -> threading.Thread:
        """Serve from a thread of this process."""
        thread = threading.Thread(target=self.serve, name="sandbox", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Stop serving and sending."""
        self._server.shutdown()
        self._server.server_close()
        self.deliverer.close()


def _put(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
