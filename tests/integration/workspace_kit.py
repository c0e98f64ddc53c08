"""Real git served over HTTP with token auth, and a workspace room on top: shared by the tests."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from coven.clock import SystemClock
from coven.governance.wire import Seam
from coven.settings.models import GitHub, Server, Settings, Worker
from coven.values import InstallationId, RepoId, RepoName, Sha, new_task_id
from worker.workspace.checkout import CheckoutRequest, Workspaces

TOKEN = "ghs_" + "workspaceTestToken0123456789abcdef"
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Dev",
    "GIT_AUTHOR_EMAIL": "dev@example.test",
    "GIT_COMMITTER_NAME": "Dev",
    "GIT_COMMITTER_EMAIL": "dev@example.test",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "LC_ALL": "C.UTF-8",
}


def git(
    cwd: Path, *args: str, stdin: bytes | None = None, env: dict[str, str] | None = None
) -> str:
    done = subprocess.run(  # noqa: TID251 - the developer's git, not ours
        ["git", *args], cwd=cwd, env=ENV | (env or {}), input=stdin, capture_output=True
    )
    assert done.returncode == 0, (args, done.stderr.decode())
    return done.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass
class Remote:
    """A git host on localhost."""

    root: Path
    base: str
    token: str = TOKEN
    status: int | None = None
    """Answer every request with this status."""
    requests: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def bare(self, owner: str = "acme", name: str = "shop") -> Path:
        path = self.root / owner / f"{name}.git"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            git(self.root, "init", "-q", "--bare", "-b", "main", str(path))
            git(path, "config", "http.receivepack", "true")
            git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
        return path


def make_handler(remote: Remote) -> type[BaseHTTPRequestHandler]:
    expected = "Basic " + base64.b64encode(f"x-access-token:{remote.token}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            return

        def _refuse(self, status: int) -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="GitHub"')
            if status in {301, 302}:
                self.send_header("Location", "http://127.0.0.1:9/elsewhere.git/info/refs")
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True

        def _serve(self) -> None:
            remote.requests.append(f"{self.command} {self.path}")
            auth = self.headers.get("Authorization")
            remote.authorizations.append(auth)
            body = self._body()
            if remote.status is not None:
                self._refuse(remote.status)
                return
            if auth != expected:
                self._refuse(401)
                return
            parts = urlsplit(self.path)
            if ".git" not in parts.path or not (remote.root / _repo(parts.path)).is_dir():
                self._refuse(404)
                return
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(remote.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": unquote(parts.path),
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "x-access-token",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            }
            done = subprocess.run(  # noqa: TID251 - the host's git, not ours
                ["git", "http-backend"], env=env, input=body, capture_output=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
            status = next((int(v.split()[0]) for k, v in headers if k == "Status"), 200)
            self.send_response(status)
            for key, value in headers:
                if key != "Status":
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # a client that was stopped by a limit
                self.wfile.write(content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                body = b""
                while size := int(self.rfile.readline().strip() or b"0", 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        do_GET = do_POST = _serve

    return Handler


def _repo(path: str) -> str:
    return unquote(path).lstrip("/").split(".git", 1)[0] + ".git"


@contextmanager
def serve(root: Path) -> Iterator[Remote]:
    root.mkdir(parents=True, exist_ok=True)
    remote = Remote(root, "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(remote))
    server.daemon_threads = True
    remote.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield remote
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Room:
    """A remote, a developer's clone and our workspaces."""

    tmp: Path
    remote: Remote
    settings: Settings
    seam: Seam
    workspaces: Workspaces
    dev: Path
    installation: InstallationId
    repo_id: RepoId
    repo: RepoName

    @property
    def bare(self) -> Path:
        return self.remote.bare(self.repo.owner, self.repo.name)

    def commit(
        self,
        files: dict[str, str | bytes | None],
        *,
        branch: str = "main",
        new: bool = False,
        message: str = "Work",
    ) -> Sha:
        """Commit files on a branch of the developer's clone; None removes a file."""
        if new:
            git(self.dev, "checkout", "-q", "-b", branch)
        for name, content in files.items():
            path = self.dev / name
            if content is None:
                git(self.dev, "rm", "-q", name)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(self.dev, "add", "-A", "-f")
        git(self.dev, "commit", "-q", "--allow-empty", "-m", message)
        return Sha(git(self.dev, "rev-parse", "HEAD"))

    def publish(self, sha: Sha, *refs: str) -> None:
        """Put a commit on the remote under these refs."""
        specs = [f"+{sha}:{ref}" for ref in refs]
        git(self.dev, "push", "-q", str(self.bare), *specs)

    def tree_commit(self, entries: list[tuple[str, str, str]], parent: str | None = None) -> Sha:
        """A commit of raw tree entries (mode, sha, name) that git's porcelain would refuse."""
        raw = b"".join(
            f"{mode} ".encode()
            + name.encode("utf-8", "surrogateescape")
            + b"\0"
            + bytes.fromhex(sha)
            for mode, sha, name in entries
        )
        tree = git(self.dev, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
        args = ["commit-tree", tree, "-m", "raw"] + (["-p", parent] if parent else [])
        return Sha(git(self.dev, *args))

    def blob(self, content: bytes) -> str:
        return git(self.dev, "hash-object", "-w", "--stdin", stdin=content)

    def request(self, head: Sha, **changes: object) -> CheckoutRequest:
        task_id = new_task_id()
        values: dict[str, object] = {
            "installation_id": self.installation,
            "repo_id": self.repo_id,
            "repo": self.repo,
            "task_id": task_id,
            "number": 7,
            "is_pull": True,
            "head_sha": head,
            "base_ref": "main",
            "base_sha": None,
            "default_branch": "main",
            "branch": f"cody/review-7-{task_id[:8]}",
            "trusted": True,
            "clone_url": self.workspaces.clone_url(self.repo),
        }
        return CheckoutRequest(**(values | changes))  # type: ignore[arg-type]

    def pull(self, files: dict[str, str | bytes | None] | None = None) -> tuple[Sha, Sha]:
        """A base commit on main and a pull request head on top, both on the remote."""
        base = self.commit({"a.py": "one\n", "lib/b.py": "two\n"})
        head = self.commit(files or {"a.py": "changed\n"}, branch="topic", new=True)
        self.publish(base, "refs/heads/main")
        self.publish(head, "refs/heads/topic", "refs/pull/7/head")
        return base, head


@contextmanager
def make_room(tmp: Path, **worker: object) -> Iterator[Room]:
    with serve(tmp / "host") as remote:
        settings = Settings(
            server=Server(state_dir=tmp / "state"),
            github=GitHub(html_base_url=remote.base, api_base_url=remote.base),
            worker=Worker(**worker),  # type: ignore[arg-type]
        )
        seam = Seam()
        dev = tmp / "dev"
        dev.mkdir()
        git(dev, "init", "-q", "-b", "main")
        room = Room(
            tmp,
            remote,
            settings,
            seam,
            Workspaces(settings, seam, SystemClock()),
            dev,
            InstallationId(11),
            RepoId(22),
            RepoName("acme", "shop"),
        )
        room.remote.bare()
        yield room
