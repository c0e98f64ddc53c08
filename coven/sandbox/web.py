"""The HTTP surface: dispatch, limits, request log, faults."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from coven.sandbox import (
    apps,
    checks,
    commits,
    issues,
    manifests,
    marketplace,
    pulls,
    repos,
    reviews,
)
from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.auth import bearer, check_jwt
from coven.sandbox.call import Call, Route
from coven.sandbox.faults import Fault, LoggedRequest
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, Repo, now

ROUTES: tuple[Route, ...] = (
    *apps.ROUTES,
    *manifests.ROUTES,
    *marketplace.ROUTES,
    *repos.ROUTES,
    *commits.ROUTES,
    *pulls.ROUTES,
    *reviews.ROUTES,
    *issues.ROUTES,
    *checks.ROUTES,
)
VERSIONS = ("2022-11-28", "2026-03-10")
IN_REPO = "/repos/<owner>/<repo>"
PREFIXES = ("", "/api/v3")


class RestApi:
    """GitHub's REST API over a hub."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._content: deque[float] = deque()

    def register(self, flask: Flask) -> None:
        """Add every operation, also under ``/api/v3`` and by repository id."""
        for route in ROUTES:
            rules = [route.path]
            if route.path.startswith(IN_REPO):
                rules.append("/repositories/<int:repo_id>" + route.path[len(IN_REPO) :])
            for prefix in PREFIXES:
                for rule in rules:
                    view = self._view(route)
                    endpoint = f"{route.method} {prefix}{rule}"
                    flask.add_url_rule(
                        prefix + rule, endpoint, view, methods=[route.method], strict_slashes=True
                    )

    def _view(self, route: Route) -> Any:
        def view(**args: Any) -> Response:
            g.purpose = route.name
            try:
                with self.hub.state.lock:
                    answer = self._run(route, args)
            except ApiError as error:
                answer = error.answer()
            return self.respond(answer)

        return view

    def _run(self, route: Route, args: dict[str, Any]) -> Answer:
        version = request.headers.get("X-GitHub-Api-Version")
        if version is not None and version not in VERSIONS:
            raise ApiError(400, f"API version {version} is not supported.")
        if not request.headers.get("User-Agent"):
            raise ApiError(403, "Request forbidden by administrative rules. Send a User-Agent.")
        call = Call(
            hub=self.hub,
            args={key: str(value) for key, value in args.items()},
            query=request.args.to_dict(),
            body=self._body(),
            url=request.base_url,
        )
        self._identify(route, call)
        if "repo" in args or "repo_id" in args:
            moved = self._find_repo(call)
            if moved is not None:
                return moved
            self._see_repo(route, call)
        if call.app is None:
            call.require(route.needs)
        if route.method != "GET" and call.found is not None and call.found.archived:
            raise ApiError(403, "Repository was archived so is read-only.")
        if route.creates:
            self._content_limit()
        return route.handler(call)

    def _body(self) -> JSON:
        raw = request.get_data(cache=True)
        if not raw or request.method == "GET":
            return {}
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise ApiError(400, "Problems parsing JSON") from error
        if not isinstance(body, dict):
            raise ApiError(400, "Body should be a JSON object")
        return body

    def _identify(self, route: Route, call: Call) -> None:
        header = request.headers.get("Authorization", "")
        if route.caller == "app":
            call.app = check_jwt(self.hub, header)
            g.actor = "app"
            return
        credential = bearer(header)
        if credential is None:
            if route.caller == "anyone" and not header:
                return
            raise ApiError(401, "Requires authentication")
        if route.caller in ("anyone", "either") and credential.count(".") == 2:
            if not credential.startswith("ghs_"):
                call.app = check_jwt(self.hub, header)
                g.actor = "app"
                return
        elif credential.count(".") == 2 and not credential.startswith("ghs_"):
            raise ApiError(401, "Bad credentials")
        token = self.hub.live_token(credential)
        call.token = token
        g.actor, g.installation_id = f"token:{token.id}", token.installation_id
        limit = self.hub.limit(token.installation_id)
        if limit.used >= limit.limit:
            raise ApiError(
                403,
                f"API rate limit exceeded for installation ID {token.installation_id}.",
            )
        limit.used += 1

    def _find_repo(self, call: Call) -> Answer | None:
        if "repo_id" in call.args:
            call.found = self.hub.repo(call.number("repo_id"))
        else:
            name = f"{call.args['owner']}/{call.args['repo']}"
            try:
                call.found = self.hub.repo(name)
            except ApiError:
                return self._moved(name)
        g.repo = self.hub.full_name(call.found)
        return None

    def _moved(self, name: str) -> Answer:
        repo_id = self.hub.state.redirects.get(name.casefold())
        repo = self.hub.state.repos.get(repo_id or 0)
        if repo is None or repo.deleted:
            raise not_found()
        rest = request.path.split("/repos/", 1)[1].split("/", 2)
        tail = f"/{rest[2]}" if len(rest) > 2 else ""
        query = f"?{request.query_string.decode()}" if request.query_string else ""
        prefix = "/api/v3" if request.path.startswith("/api/v3/") else ""
        url = f"{self.hub.base_url}{prefix}/repositories/{repo.id}{tail}{query}"
        data = {
            "message": "Moved Permanently",
            "url": url,
            "documentation_url": "https://docs.github.com/rest/guides/best-practices",
        }
        return Answer(data, 301 if request.method == "GET" else 307, {"Location": url})

    def _see_repo(self, route: Route, call: Call) -> None:
        repo: Repo = call.repo
        if call.app is not None:
            return
        if call.token is None:
            if repo.private or route.method != "GET":
                raise not_found()
            return
        if not self.hub.token_sees(call.token, repo):
            raise not_found()

    def _content_limit(self) -> None:
        most = self.hub.state.content_per_minute
        if most is None:
            return
        moment = time.monotonic()
        while self._content and self._content[0] < moment - 60:
            self._content.popleft()
        if len(self._content) >= most:
            raise secondary_limit(60)
        self._content.append(moment)

    def respond(self, answer: Answer) -> Response:
        """JSON with the headers that GitHub sends along."""
        if answer.data is None:
            response = Response(status=answer.status)
        else:
            text = json.dumps(answer.data, ensure_ascii=False)
            response = Response(text, answer.status, content_type="application/json; charset=utf-8")
        response.headers.update(answer.headers)
        response.headers["X-GitHub-Request-Id"] = secrets.token_hex(10).upper()
        response.headers["X-GitHub-Media-Type"] = "github.v3; format=json"
        installation_id = getattr(g, "installation_id", None)
        if installation_id is not None:
            with self.hub.state.lock:
                limit = self.hub.limit(installation_id)
                response.headers["X-RateLimit-Limit"] = str(limit.limit)
                response.headers["X-RateLimit-Remaining"] = str(max(0, limit.limit - limit.used))
                response.headers["X-RateLimit-Used"] = str(limit.used)
                response.headers["X-RateLimit-Reset"] = str(int(limit.reset_at.timestamp()))
                response.headers["X-RateLimit-Resource"] = "core"
        if request.method == "GET" and answer.status == 200 and answer.data is not None:
            response.add_etag(weak=True)
            response.make_conditional(request)
            if response.status_code == 304 and installation_id is not None:
                with self.hub.state.lock:
                    self.hub.limit(installation_id).used -= 1
        return response


def secondary_limit(retry_after: int | None, status: int = 403) -> ApiError:
    """GitHub's word for *too fast*."""
    return ApiError(
        status,
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        headers={} if retry_after is None else {"Retry-After": str(retry_after)},
    )


def install_hooks(flask: Flask, hub: Hub, api: RestApi) -> None:
    """Faults before and after each request, and a line in the log for it."""

    def before() -> Response | None:
        g.started = time.monotonic()
        if request.path.startswith("/_sandbox"):
            return None
        fault = hub.faults.take(request.method, request.path.removeprefix("/api/v3"))
        g.fault = fault
        if fault is None:
            return None
        if fault.seconds and not fault.after:
            time.sleep(fault.seconds)
        if fault.kind == "expire":
            _expire(hub)
        if fault.after or fault.kind in ("delay", "expire"):
            return None
        g.purpose = "fault"
        return _fail(api, fault)

    def after(response: Response) -> Response:
        if request.path.startswith("/_sandbox"):
            return response
        fault: Fault | None = getattr(g, "fault", None)
        if fault is not None and fault.after:
            response.get_data()  # the effect of a streamed answer is complete only at its end
            if fault.seconds:
                time.sleep(fault.seconds)
            if fault.kind not in ("delay", "expire"):
                response = _fail(api, fault)
        _log(hub, response, fault)
        return response

    def missing(_: Exception) -> Response:
        g.unexpected = True
        return api.respond(not_found().answer())

    def crashed(_: Exception) -> Response:
        g.unexpected = True
        return api.respond(Answer({"message": "Server Error"}, 500))

    flask.before_request(before)
    flask.after_request(after)
    flask.register_error_handler(404, missing)
    flask.register_error_handler(405, missing)
    flask.register_error_handler(500, crashed)


def _expire(hub: Hub) -> None:
    credential = bearer(request.headers.get("Authorization", ""))
    with hub.state.lock:
        token = hub.state.tokens.get(credential or "")
        if token is not None:
            token.expires_at = now() - timedelta(seconds=1)


def _fail(api: RestApi, fault: Fault) -> Response:
    if fault.kind == "drop":
        connection = request.environ.get("werkzeug.socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return Response(status=502)
    if fault.status in (403, 429):
        error = secondary_limit(fault.retry_after, fault.status)
        if fault.message:
            error.message = fault.message
        return api.respond(error.answer())
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    message = fault.message or "Server Error"
    return api.respond(Answer({"message": message}, fault.status, headers))


def _log(hub: Hub, response: Response, fault: Fault | None) -> None:
    installation_id = getattr(g, "installation_id", None)
    hub.log.add(
        LoggedRequest(
            n=0,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=request.method,
            path=urlsplit(request.path).path,
            query=request.query_string.decode(errors="replace"),
            purpose=getattr(g, "purpose", ""),
            status=response.status_code,
            actor=getattr(g, "actor", "anonymous"),
            installation_id=installation_id,
            repo=getattr(g, "repo", None),
            fault=None if fault is None else fault.kind,
            duration_ms=round((time.monotonic() - g.started) * 1000, 1),
            unexpected=getattr(g, "unexpected", False),
            user_agent=request.headers.get("User-Agent", "")[:200],
        )
    )
