"""Git over HTTP: token auth in front of the real ``git http-backend``."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO

from flask import Flask, Response, g, request

from coven.sandbox import changes
from coven.sandbox.answers import ApiError
from coven.sandbox.auth import allows, bearer
from coven.sandbox.gitrepo import GIT_ENV
from coven.sandbox.hub import Hub
from coven.sandbox.state import Repo, Token

SPOOL = 1 << 20
CHUNK = 1 << 16
SERVICES = ("info/refs", "git-upload-pack", "git-receive-pack")


class GitHttp:
    """Serves ``/<owner>/<repo>.git/…``. Holds the lock to decide only, never for the pack."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def register(self, flask: Flask) -> None:
        """Add the three endpoints of the smart protocol; the dumb one is not served."""
        rule = "/<owner>/<repo>.git/<path:service>"
        flask.add_url_rule(rule, "git", self.serve, methods=["GET", "POST"])

    def serve(self, owner: str, repo: str, service: str) -> Response:
        """One request of a clone, fetch or push."""
        asked = request.args.get("service") if service == "info/refs" else service
        pushing = asked == "git-receive-pack"
        g.purpose = "git_push" if pushing else "git_fetch"
        if service not in SERVICES or asked not in SERVICES:
            return _text(404, "Not Found")
        try:
            with self.hub.state.lock:
                found, moved = self._find(f"{owner}/{repo}")
                if moved:
                    return self._redirect(found, service)
                token = self._admit(found, pushing)
                environment = self._environment(found, token, service)
                git = self.hub.git(found)
                before = git.branches() if service == "git-receive-pack" else {}
        except ApiError as error:
            response = _text(error.status, error.message)
            response.headers.update(error.headers)
            return response
        response = self._backend(environment)
        if service == "git-receive-pack":
            response.get_data()  # the push is over when its report is
            with self.hub.state.lock:
                changes.branches_moved(self.hub, found, before, self.hub.app.bot_id)
        return response

    def _find(self, name: str) -> tuple[Repo, bool]:
        try:
            return self.hub.repo(name), False
        except ApiError:
            repo_id = self.hub.state.redirects.get(name.casefold())
            if repo_id is None:
                if not request.headers.get("Authorization"):
                    raise _challenge() from None  # GitHub does not tell strangers what exists
                raise ApiError(404, "Repository not found.") from None
            return self.hub.repo(repo_id), True

    def _redirect(self, repo: Repo, service: str) -> Response:
        query = f"?{request.query_string.decode()}" if request.query_string else ""
        url = f"{self.hub.base_url}/{self.hub.full_name(repo)}.git/{service}{query}"
        response = _text(301, "")
        response.headers["Location"] = url
        return response

    def _admit(self, repo: Repo, pushing: bool) -> Token | None:
        g.repo = self.hub.full_name(repo)
        header = request.headers.get("Authorization", "")
        if not header:
            if repo.private or pushing:
                raise _challenge()
            return None
        name = getattr(request.authorization, "username", None)
        credential = bearer(header)
        if credential is None or name != "x-access-token":
            raise _challenge("Invalid username or token.")
        try:
            token = self.hub.live_token(credential)
        except ApiError as error:
            if error.status == 401:
                raise _challenge("Invalid username or token.") from error
            raise
        g.actor, g.installation_id = f"token:{token.id}", token.installation_id
        if not self.hub.token_sees(token, repo):
            raise ApiError(404, "Repository not found.")
        if not allows(token.permissions, "contents=write" if pushing else "contents=read"):
            word = "Write access" if pushing else "Read access"
            raise ApiError(403, f"{word} to repository not granted.")
        if pushing and repo.archived:
            raise ApiError(403, "This repository was archived so it is read-only.")
        return token

    def _environment(self, repo: Repo, token: Token | None, service: str) -> dict[str, str]:
        path = self.hub.git(repo).path
        environment = {
            **GIT_ENV,
            "GIT_PROJECT_ROOT": str(path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{path.name}/{service}",
            "REQUEST_METHOD": request.method,
            "QUERY_STRING": request.query_string.decode(errors="replace"),
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "SANDBOX_PROTECTED": " ".join(sorted(repo.protected)),
            "SANDBOX_WORKFLOWS": "0",
        }
        if token is not None:
            environment["REMOTE_USER"] = f"token-{token.id}"
            if allows(token.permissions, "workflows=write"):
                environment["SANDBOX_WORKFLOWS"] = "1"
        for header, name in (
            ("Content-Encoding", "HTTP_CONTENT_ENCODING"),
            ("Git-Protocol", "HTTP_GIT_PROTOCOL"),
        ):
            if request.headers.get(header):
                environment[name] = request.headers[header]
        return environment

    def _backend(self, environment: dict[str, str]) -> Response:
        with contextlib.ExitStack() as stack:
            body: IO[bytes] = stack.enter_context(tempfile.SpooledTemporaryFile(SPOOL))
            size = 0
            while chunk := request.stream.read(CHUNK):
                size += len(chunk)
                body.write(chunk)
            body.seek(0)
            environment["CONTENT_LENGTH"] = str(size)
            process = subprocess.Popen(  # noqa: TID251 - the sandbox is outside the seam
                ["git", "http-backend"],
                stdin=body.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        assert process.stdout is not None
        status, headers = 200, []
        while (line := process.stdout.readline().rstrip(b"\r\n")) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            if name.casefold() == "status":
                status = int(value.split()[0])
            else:
                headers.append((name, value.strip()))
        return Response(_stream(process), status, headers, direct_passthrough=False)


def _stream(process: subprocess.Popen[bytes]) -> Iterator[bytes]:  # noqa: TID251 - a type
    assert isinstance(process.stdout, io.BufferedReader)
    try:
        while chunk := process.stdout.read1(CHUNK):
            yield chunk
    finally:
        process.stdout.close()
        if process.poll() is None:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _challenge(message: str = "Authentication required.") -> ApiError:
    return ApiError(401, message, headers={"WWW-Authenticate": 'Basic realm="GitHub"'})


def _text(status: int, message: str) -> Response:
    return Response(f"{message}\n", status, content_type="text/plain; charset=utf-8")
