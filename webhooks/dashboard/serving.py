"""From a request to a page: who -> may -> view -> record -> render."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlencode

import structlog
from flask import Response, request
from werkzeug.exceptions import HTTPException

from coven.api_tokens import TokenScope
from coven.errors import StoreUnavailable
from coven.memory.book import Person
from coven.services import Services
from coven.store import api_audit, installations, sweeps
from coven.store.engine import Tx
from coven.values import InstallationId, RepoName
from webhooks.api.auth import Caller, Tokens
from webhooks.api.cursors import Cursors
from webhooks.api.problems import Problem
from webhooks.api.recording import Recorder
from webhooks.dashboard import origins
from webhooks.dashboard.access import Access
from webhooks.dashboard.asking import AloneView, Ask, Done, Page, Parts, Sent, Shown, View, not_here
from webhooks.dashboard.rendering import Renderer, url
from webhooks.dashboard.sessions import MAX_CHARS, Cookies, Session, begin
from webhooks.receiver import Receiver

SECTIONS: Sequence[tuple[str, str, bool]] = (
    ("", "Now", False),
    ("tasks", "Tasks", False),
    ("deliveries", "Deliveries", False),
    ("memory", "Memory", False),
    ("rules", "Rules", False),
    ("usage", "Usage", False),
    ("audit", "Audit", False),
    ("settings", "Settings", True),
)
"""Path, word, and whether it is for operators only."""
_TITLES = {
    400: "That can't be read",
    401: "Please sign in",
    403: "That is not allowed",
    404: "Nothing here",
    405: "That does not work here",
    409: "Not possible now",
    413: "Too large",
    429: "Slow down",
    503: "Not now",
}
_log = structlog.get_logger(__name__)


class Dashboard:
    """Serves pages. Made once per process; safe for threads."""

    def __init__(self, services: Services, receiver: Receiver) -> None:
        self.services = services
        self.tokens = Tokens(services.settings.api, services.store)
        self.cookies = Cookies(services.secret_key)
        self.renderer = Renderer(services.settings.github.html_base_url)
        self.recorder = Recorder(services)
        self._parts = Parts(services, Cursors(services.secret_key), receiver)
        public = services.settings.server.public_url or ""
        self._secure = public.startswith("https://")
        # With the prefix browsers take the cookie from nobody else of this domain.
        self._cookie = "__Host-coven_ops" if self._secure else "coven_ops"

    # Sessions

    def session(self) -> Session | None:
        """The session of this request."""
        value = request.cookies.get(self._cookie)
        return self.cookies.read(value, self.now()) if value else None

    def now(self) -> datetime:
        return self.services.clock.now()

    def keep(self, response: Response, session: Session) -> Response:
        """Let the browser keep a session. Raises ``Problem`` when it is too large."""
        value = self.cookies.write(session)
        if len(value) > MAX_CHARS:
            raise Problem(400, "too_many", "The session is too large for a cookie.")
        response.set_cookie(
            self._cookie,
            value,
            max_age=max(session.until - int(self.now().timestamp()), 1),
            path="/" if self._secure else "/ops",
            secure=self._secure,
            httponly=True,
            samesite="Lax",
        )
        return response

    def forget(self, response: Response) -> Response:
        """Let the browser drop its session."""
        path = "/" if self._secure else "/ops"
        response.delete_cookie(
            self._cookie, path=path, secure=self._secure, httponly=True, samesite="Lax"
        )
        return response

    def access(self, session: Session | None) -> Access | None:
        """Who a session belongs to, as of now. Raises ``StoreUnavailable``."""
        if session is None:
            return None
        if (came := session.token) is not None:
            caller = self.tokens.again(
                came.name,
                came.id,
                lambda digest: self.cookies.fingerprint(digest) == came.fingerprint,
                self.now(),
            )
            if caller is None:
                return None
            return Access(
                caller.name, (replace(caller, person=Person(None, f"ops:{caller.name}")),)
            )
        if (who := session.github) is not None and who.grants:
            callers = tuple(
                Caller(
                    f"github:{who.login}",
                    InstallationId(each.installation),
                    TokenScope(each.scope),
                    frozenset(RepoName.parse(name) for name in each.repos),
                    person=Person(who.id, who.login),
                )
                for each in who.grants
            )
            return Access(who.login, callers)
        return None

    # Pages

    def answer(self, page: Page, path: Mapping[str, str]) -> Response:
        """The answer to one request. Raises ``StoreUnavailable``, which :meth:`crashed` tells."""
        session = self.session()
        caller: Caller | None = None
        try:
            access = self.access(session)
            if session is None or access is None:
                return self._stranger(page)
            if page.method == "POST":
                self.require_own(session)
            ask = self._ask(page, path, access)
            caller = ask.caller
            return self._serve(page, ask, session)
        except Problem as problem:
            self.recorder.refused(caller, f"ops.{page.name}", problem.code)
            return self.refuse(problem, session)

    def require_own(self, session: Session | None) -> None:
        """Only our own forms change anything. Raises ``Problem``."""
        settings = self.services.settings
        own = origins.is_own(dict(request.headers), request.host, settings.server.public_url)
        token = request.form.get("csrf", "")
        if not own or session is None or not self.cookies.is_csrf(session, token):
            raise Problem(
                403,
                "not_from_here",
                "This did not come from a page of this dashboard, or the page was too old. "
                "Go back, load the page again, and repeat it.",
            )

    def _stranger(self, page: Page) -> Response:
        if page.method == "POST":
            return self.refuse(Problem(401, "unauthorized", "You are signed out."), None)
        wanted = request.full_path.rstrip("?")
        where = url("login", next=origins.after_login(wanted))
        if request.headers.get("HX-Request"):
            return Response(status=401, headers={"HX-Redirect": url("login")})
        return Response(status=303, headers={"Location": where})

    def _ask(self, page: Page, path: Mapping[str, str], access: Access) -> Ask:
        query = {name: value for name, value in request.args.items() if value.strip()}
        form = dict(request.form.items()) if page.method == "POST" else {}
        named = _installation(path.get(page.needs) if page.needs else query.get("installation_id"))
        if page.operators and not access.is_operator:
            raise not_here()
        caller = access.caller(named)
        if caller is None:
            raise not_here()
        if not caller.may(page.scope):
            raise Problem(
                403,
                "scope_missing",
                f"This needs the scope {page.scope}; you have {caller.scope} here. "
                "Ask an operator of this server.",
            )
        installation = caller.installation if caller.installation is not None else named
        return Ask(
            self._parts,
            page.name,
            access,
            caller,
            installation,
            path,
            query,
            form,
            self.now(),
        )

    def _serve(self, page: Page, ask: Ask, session: Session) -> Response:
        store = self.services.store
        frame: dict[str, Any] = {}
        if page.alone:
            found: Shown | Done | Sent = cast(AloneView, page.view)(ask)
            with store.write("ops.audit") as tx:
                self._record(tx, page, ask, found)
        elif page.method == "POST":
            with store.write(f"ops.{page.name}") as tx:
                found = cast(View, page.view)(ask, tx)
                frame = self._frame(tx, ask, session) if isinstance(found, Shown) else {}
                self._record(tx, page, ask, found)
        else:
            with store.read() as tx:
                found = cast(View, page.view)(ask, tx)
                frame = self._frame(tx, ask, session) if isinstance(found, Shown) else {}
            with store.write("ops.audit") as tx:
                self._record(tx, page, ask, found)
        if isinstance(found, Sent):
            return found.response
        if isinstance(found, Done):
            for ring in found.after:
                ring()
            response = Response(status=303, headers={"Location": found.where})
            return self.keep(response, session.says("good", found.text))
        body = self.renderer.page(found.template, **frame, **found.context)
        response = Response(body, mimetype="text/html")
        if session.flash and not page.frequent:
            self.keep(response, replace(session, flash=()))
        return response

    def _record(self, tx: Tx, page: Page, ask: Ask, found: Shown | Done | Sent) -> None:
        action = f"ops.{page.name}"
        if page.frequent:
            api_audit.count_refusals(
                ask.installation,
                tx,
                at=ask.now,
                caller=ask.caller.name,
                action=action,
                result="ok",
                times=1,
            )
            return
        owner = found.owner if found.owner is not None else ask.installation
        self.recorder.good(tx, ask.caller, owner, action, rows=found.rows, target=found.target)

    def _frame(self, tx: Tx, ask: Ask, session: Session) -> dict[str, Any]:
        """What every page shows around its own content."""
        return self._base(session) | {
            "access": ask.access,
            "ask": ask,
            "may_admin": ask.may(TokenScope.ADMIN),
            "may_write": ask.may(TokenScope.MEMORY_WRITE),
            "sections": [
                (path, word)
                for path, word, operators in SECTIONS
                if ask.access.is_operator or not operators
            ],
            "tenants": _tenants(tx, ask.access),
            "here": functools.partial(_here, request.path, ask.query),
        }

    def _base(self, session: Session | None) -> dict[str, Any]:
        return {
            "now": self.now(),
            "csrf": self.cookies.csrf(session) if session is not None else "",
            "flash": session.flash if session is not None else (),
            "flower": self.services.settings.server.flower_url,
            "access": None,
            "sections": (),
            "tenants": (),
            "ask": None,
        }

    def plain(self, template: str, session: Session, status: int = 200, **more: Any) -> Response:
        """A page for somebody who is not signed in; their messages are shown once."""
        body = self.renderer.page(template, **(self._base(session) | more))
        response = Response(body, status, mimetype="text/html")
        return self.keep(response, replace(session, flash=()))

    def refuse(self, problem: Problem, session: Session | None) -> Response:
        """A page that says what is wrong and what to do."""
        base = self._base(session)
        if request.headers.get("HX-Request"):
            base["flash"] = ()
        body = self.renderer.page(
            "error.html",
            **base,
            status=problem.status,
            title=_TITLES.get(problem.status, "Something is wrong"),
            detail=problem.detail,
        )
        response = Response(body, problem.status, mimetype="text/html")
        response.headers.extend(problem.headers)
        return response

    def http_error(self, error: HTTPException) -> Response:
        """What Flask refuses before a view is called."""
        status = error.code or 500
        detail = "There is no such page." if status == 404 else "Go back and try another way."
        response = self.refuse(Problem(status, "refused", detail), self.session())
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    def crashed(self, error: Exception) -> Response:
        """A refusal outside of a page, the ledgers are away, or it is our own mistake."""
        if isinstance(error, Problem):
            return self.refuse(error, self.session())
        if isinstance(error, StoreUnavailable):
            _log.error("ops_store_unavailable", path=request.path, why=str(error))
            detail = "The ledgers can't be reached. Try again soon."
            return self.refuse(Problem(503, "store_unavailable", detail), self.session())
        _log.error("request_crashed", path=request.path, exc_info=error)
        detail = "Something broke on our side. The log has it; try again, or tell the operator."
        return self.refuse(Problem(500, "internal", detail), None)

    def anonymous(self) -> Session:
        """The session of this request, or a fresh one of nobody."""
        return self.session() or begin(self.now())


def _installation(text: str | None) -> InstallationId | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise not_here()
    return InstallationId(int(text))


def _here(path: str, query: Mapping[str, str], **changes: object) -> str:
    """The address of this page with other parameters; None takes one out."""
    asked = {name: value for name, value in {**query, **changes}.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path


def _tenants(tx: Tx, access: Access) -> list[tuple[int, str]]:
    """The installations to choose from, with their accounts."""
    if access.is_operator:
        known = sweeps.standing_installations(tx)
    else:
        if len(access.installations) < 2:
            return []
        found = [installations.get(each, tx) for each in access.installations]
        known = [each for each in found if each is not None]
    return [(each.id, each.account_login or str(each.id)) for each in known]
