"""Operations of the App itself: installations, tokens, webhook deliveries, accounts, limits."""

from __future__ import annotations

from typing import Any

from flask import request

from coven.sandbox import render
from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.auth import RANK
from coven.sandbox.call import Call, Route
from coven.sandbox.deliveries import Deliverer, delivery_detail, delivery_item
from coven.sandbox.state import Installation, stamp

MAX_REPOSITORIES = 500


def get_app(call: Call) -> Answer:
    shown = render.app(call.hub, call.app) or {}
    count = sum(1 for i in call.hub.state.installations.values() if not i.deleted)
    return Answer({**shown, "installations_count": count})


def list_installations(call: Call) -> Answer:
    live = [i for i in call.hub.state.installations.values() if not i.deleted]
    return call.page(live, lambda i: render.installation(call.hub, i))


def get_installation(call: Call) -> Answer:
    return Answer(
        render.installation(call.hub, call.hub.installation(call.number("installation_id")))
    )


def get_repo_installation(call: Call) -> Answer:
    found = call.hub.installation_of(call.repo)
    if found is None:
        raise not_found()
    return Answer(render.installation(call.hub, found))


def create_token(call: Call) -> Answer:
    """``POST /app/installations/{id}/access_tokens``."""
    hub = call.hub
    found = hub.installation(call.number("installation_id"))
    if found.suspended_at is not None:
        raise ApiError(403, "This installation has been suspended")
    permissions = _permissions(call.body.get("permissions"), found.permissions)
    repo_ids = _scope(call, found)
    long = request.headers.get("X-GitHub-Stateless-S2S-Token", "") != "disabled"
    token = hub.mint(found, repo_ids, permissions, long=long)
    selected = repo_ids is not None or found.repo_ids is not None
    data: dict[str, Any] = {
        "token": token.value,
        "expires_at": stamp(token.expires_at),
        "permissions": permissions,
        "repository_selection": "selected" if selected else "all",
    }
    if repo_ids is not None:
        data["repositories"] = [render.repository(hub, hub.repo(i)) for i in sorted(repo_ids)]
    return Answer(data, 201)


def _permissions(wanted: Any, granted: dict[str, str]) -> dict[str, str]:
    if wanted is None:
        return {**granted, "metadata": "read"}
    if not isinstance(wanted, dict):
        raise ApiError(422, "Invalid request.\n\nFor 'properties/permissions', not an object.")
    for name, level in wanted.items():
        if level not in ("read", "write", "admin") or (name == "workflows" and level != "write"):
            raise ApiError(422, f"Invalid request.\n\n{level!r} is not a level of {name!r}.")
        if RANK[level] > RANK[granted.get(name, "none")] and (name, level) != ("metadata", "read"):
            raise ApiError(
                422,
                "The permissions requested are not granted to this installation.",
            )
    return {**wanted, "metadata": "read"}


def _scope(call: Call, found: Installation) -> set[int] | None:
    by_id, by_name = call.body.get("repository_ids"), call.body.get("repositories")
    if by_id is None and by_name is None:
        return None
    for given in (by_id, by_name):
        if given is not None and (not isinstance(given, list) or len(given) > MAX_REPOSITORIES):
            raise ApiError(422, f"Invalid request.\n\nAt most {MAX_REPOSITORIES} repositories.")
    covered = call.hub.covered(found)
    ids = {r.id for r in covered}
    names = {r.name.casefold(): r.id for r in covered}
    refused = ApiError(
        422,
        "There is at least one repository that does not exist or is not accessible to the "
        "parent installation.",
    )
    chosen: set[int] = set()
    for repo_id in by_id or ():
        if repo_id not in ids:
            raise refused
        chosen.add(repo_id)
    for name in by_name or ():
        if not isinstance(name, str) or name.casefold() not in names:
            raise refused
        chosen.add(names[name.casefold()])
    return chosen or None


def revoke_token(call: Call) -> Answer:
    assert call.token is not None
    call.token.revoked = True
    return Answer(status=204)


def list_installation_repositories(call: Call) -> Answer:
    assert call.token is not None
    hub, token = call.hub, call.token
    covered = hub.covered(hub.state.installations[token.installation_id])
    seen = [r for r in covered if token.repo_ids is None or r.id in token.repo_ids]
    answer = call.page(seen, lambda r: render.repository(hub, r), "repositories")
    answer.data["repository_selection"] = "all" if token.repo_ids is None else "selected"
    return answer


def _deliverer(call: Call) -> Deliverer:
    found = getattr(call.hub, "deliverer", None)
    assert isinstance(found, Deliverer)
    return found


def list_deliveries(call: Call) -> Answer:
    """Newest first; the cursor is opaque and comes from the ``Link`` header."""
    items = sorted(_deliverer(call).listed(), key=lambda d: -d.id)
    status = call.query.get("status")
    if status not in (None, "success", "failure"):
        raise ApiError(422, "Invalid request.\n\nstatus must be success or failure.")
    # As documented, "failure" means 400 to 599: deliveries that met nobody are in neither list.
    if status == "success":
        items = [d for d in items if 200 <= d.status_code < 400]
    elif status == "failure":
        items = [d for d in items if 400 <= d.status_code <= 599]
    cursor = call.query.get("cursor")
    if cursor is not None:
        digits = cursor.removeprefix("v1_")
        if not digits.isdigit():
            raise ApiError(422, "Invalid cursor")
        items = [d for d in items if d.id <= int(digits)]
    try:
        size = max(1, min(100, int(call.query.get("per_page", "30"))))
    except ValueError:
        size = 30
    headers = {}
    if len(items) > size:
        url = f"{call.url}?per_page={size}&cursor=v1_{items[size].id}"
        if status:
            url += f"&status={status}"
        headers["Link"] = f'<{url}>; rel="next"'
    return Answer([delivery_item(d) for d in items[:size]], headers=headers)


def get_delivery(call: Call) -> Answer:
    return Answer(delivery_detail(_deliverer(call).one(call.number("delivery_id"))))


def redeliver(call: Call) -> Answer:
    """202; the attempt follows in the background."""
    deliverer = _deliverer(call)
    deliverer.redeliver_later(deliverer.one(call.number("delivery_id")))
    return Answer({}, 202)


def get_user(call: Call) -> Answer:
    return Answer(render.public_user(call.hub, call.hub.user(call.args["login"])))


def get_rate_limit(call: Call) -> Answer:
    shown = {"limit": 60, "used": 0, "remaining": 60, "reset": 0}
    if call.token is not None:
        limit = call.hub.limit(call.token.installation_id)
        limit.used -= 1  # asking is free
        shown = {
            "limit": limit.limit,
            "used": limit.used,
            "remaining": max(0, limit.limit - limit.used),
            "reset": int(limit.reset_at.timestamp()),
        }
    return Answer({"resources": {"core": shown, "search": shown}, "rate": shown})


def get_meta(_: Call) -> Answer:
    return Answer(
        {
            "verifiable_password_authentication": False,
            "hooks": ["127.0.0.0/8"],
            "web": [],
            "api": [],
        }
    )


ROUTES = (
    Route("GET", "/app", get_app, caller="app"),
    Route("GET", "/app/installations", list_installations, caller="app"),
    Route("GET", "/app/installations/<installation_id>", get_installation, caller="app"),
    Route("POST", "/app/installations/<installation_id>/access_tokens", create_token, caller="app"),
    Route("GET", "/repos/<owner>/<repo>/installation", get_repo_installation, caller="app"),
    Route("DELETE", "/installation/token", revoke_token),
    Route("GET", "/installation/repositories", list_installation_repositories),
    Route("GET", "/app/hook/deliveries", list_deliveries, caller="app"),
    Route("GET", "/app/hook/deliveries/<delivery_id>", get_delivery, caller="app"),
    Route("POST", "/app/hook/deliveries/<delivery_id>/attempts", redeliver, caller="app"),
    Route("GET", "/users/<login>", get_user, caller="anyone"),
    Route("GET", "/rate_limit", get_rate_limit, caller="anyone"),
    Route("GET", "/meta", get_meta, caller="anyone"),
)
