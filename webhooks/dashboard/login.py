"""Coming and going: by a token, or through GitHub."""

from __future__ import annotations

import hmac
from dataclasses import replace
from urllib.parse import urlencode

import structlog
from flask import Response, request

from coven.api_tokens import digest_of, id_of
from coven.errors import CovenError
from coven.github.oauth import Authorize, OAuth
from coven.store import api_audit
from coven.values import InstallationId
from webhooks.api.auth import Unauthorized
from webhooks.api.limiter import Failures
from webhooks.api.problems import Problem
from webhooks.dashboard import origins
from webhooks.dashboard.grants import grants_of
from webhooks.dashboard.rendering import url
from webhooks.dashboard.serving import Dashboard
from webhooks.dashboard.sessions import BY_GITHUB, BY_TOKEN, Away, ByGitHub, ByToken, begin

MAX_TOKEN = 400
_log = structlog.get_logger(__name__)


class Login:
    """The views outside of a session."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dash = dashboard
        services = dashboard.services
        self._failures = Failures(services.clock.monotonic)
        self._oauth = OAuth.of(services.settings, services.clock, services.seam)

    def show(self) -> Response:
        """The page to sign in on; who is signed in already goes on."""
        session = self._dash.session()
        where = origins.after_login(request.args.get("next"))
        if self._dash.access(session) is not None:
            return _to(where)
        return self._page(where)

    def by_token(self) -> Response:
        """Begin a session with a token."""
        session = self._dash.session()
        where = origins.after_login(request.form.get("next"))
        address = request.remote_addr or ""
        try:
            self._dash.require_own(session)
            secret = request.form.get("token", "").strip()
            digest = digest_of(secret)
            wait = self._failures.wait_secs(address, digest)
            # As in the API: a token of the ledger can't be guessed, so it is looked up even then.
            if wait and id_of(secret) is None:
                raise Problem(429, "too_many_failures", f"Too many wrong tokens; wait {wait} s.")
            if not secret or len(secret) > MAX_TOKEN:
                raise Unauthorized("paste a token: `coven-github tokens create` makes one")
            caller = self._dash.tokens.caller(secret, self._dash.now())
        except Problem as problem:
            self._dash.recorder.refused(None, "ops.login", problem.code)
            return self._dash.refuse(problem, session)
        except Unauthorized as error:
            self._failures.failed(address, digest)
            self._dash.recorder.refused(None, "ops.login", "unauthorized")
            return self._page(where, str(error), 401)
        self._failures.passed(digest)
        came = ByToken(caller.name, caller.token_id, self._dash.cookies.fingerprint(digest))
        self._record(caller.name, caller.installation, "ops.login")
        return self._dash.keep(_to(where), begin(self._dash.now(), BY_TOKEN, token=came))

    def to_github(self) -> Response:
        """Send the browser to GitHub, with a state and a challenge that only it can answer."""
        if self._oauth is None:
            return self._dash.refuse(_NO_OAUTH, self._dash.session())
        where = origins.after_login(request.args.get("next"))
        asked = Authorize.fresh()
        session = replace(begin(self._dash.now()), away=Away(asked.state, asked.verifier, where))
        return self._dash.keep(_to(self._oauth.address(asked, self._redirect_uri())), session)

    def from_github(self) -> Response:
        """Back from GitHub: who is it, and where do they have rights?"""
        session = self._dash.session()
        try:
            if self._oauth is None:
                raise _NO_OAUTH
            away = session.away if session is not None else None
            state = request.args.get("state", "")
            if away is None or not hmac.compare_digest(away.state.encode(), state.encode()):
                raise Problem(
                    403, "bad_state", "This sign-in was not begun here, or is too old. Try again."
                )
            code = request.args.get("code", "")
            if not code:
                raise Problem(403, "denied", "GitHub did not let you sign in here. Try again.")
            try:
                token = self._oauth.exchange(code, away.verifier, self._redirect_uri())
                person = self._oauth.person(token)
                grants = grants_of(person, self._oauth.installations(token))
            except CovenError as error:
                _log.warning("ops_oauth_failed", why=str(error))
                raise Problem(
                    503, "github_unavailable", "GitHub did not say who you are. Try again soon."
                ) from None
            if not grants:
                raise Problem(
                    403,
                    "no_installation",
                    f"{person.login}, this App is installed nowhere that you have rights in. "
                    "Ask a maintainer of the repository, or install the App.",
                )
        except Problem as problem:
            self._dash.recorder.refused(None, "ops.login", problem.code)
            return self._dash.refuse(problem, session)
        came = ByGitHub(person.id, person.login, grants)
        for each in grants:
            self._record(f"github:{person.login}", InstallationId(each.installation), "ops.login")
        fresh = begin(self._dash.now(), BY_GITHUB, github=came)
        return self._dash.keep(_to(away.next), fresh)

    def leave(self) -> Response:
        """End the session."""
        session = self._dash.session()
        try:
            self._dash.require_own(session)
        except Problem as problem:
            return self._dash.refuse(problem, session)
        access = self._dash.access(session)
        if access is not None:
            for caller in access.callers:
                self._record(caller.name, caller.installation, "ops.logout")
        return self._dash.forget(_to(url("login")))

    def _page(self, where: str, problem: str | None = None, status: int = 200) -> Response:
        return self._dash.plain(
            "login.html",
            self._dash.anonymous(),
            status,
            title="Sign in",
            next=where,
            problem=problem,
            github_href=f"/ops/login/github?{urlencode({'next': where})}" if self._oauth else None,
        )

    def _redirect_uri(self) -> str:
        public = self._dash.services.settings.server.public_url
        base = public.rstrip("/") if public else request.host_url.rstrip("/")
        return f"{base}/ops/login/github/callback"

    def _record(self, name: str, installation: InstallationId | None, action: str) -> None:
        with self._dash.services.store.write("ops.audit") as tx:
            api_audit.record(
                installation, tx, at=self._dash.now(), caller=name, action=action, result="ok"
            )


_NO_OAUTH = Problem(
    404,
    "no_oauth",
    "Signing in through GitHub is not set up: set github.client_id and github.client_secret.",
)


def _to(where: str) -> Response:
    return Response(status=303, headers={"Location": where})
