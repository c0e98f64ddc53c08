"""Admin actions on accounts, installations, the webhook and the sandbox's switches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from coven.sandbox import events, marketplace, render
from coven.sandbox.answers import ApiError
from coven.sandbox.deliveries import Deliverer, Sent
from coven.sandbox.hub import Hub
from coven.sandbox.outcome import Outcome
from coven.sandbox.state import DEFAULT_PERMISSIONS, JSON, Hook, Installation, State, now


def deliverer_of(hub: Hub) -> Deliverer:
    """The hub's deliverer."""
    found = getattr(hub, "deliverer", None)
    assert isinstance(found, Deliverer)
    return found


def reset(hub: Hub) -> JSON:
    """Back to the first day: only the App is there. Repositories of before stay on disk, unused."""
    app, old = hub.app, hub.state
    bot, owner = old.users[app.bot_id], old.users[app.owner_id]
    fresh = State(lock=old.lock, next_id=old.next_id)
    fresh.apps[app.id] = app
    fresh.users = {bot.id: bot, owner.id: owner}
    fresh.hook = Hook(old.hook.id)
    hub.state = fresh
    hub.faults.clear()
    hub.log.clear()
    deliverer_of(hub).clear()
    return {}


def create_user(hub: Hub, login: str, type: str = "User", name: str | None = None) -> Any:
    """An account; ``type`` User, Bot or Organization."""
    if type not in ("User", "Bot", "Organization"):
        raise ValueError("type must be User, Bot or Organization")
    return render.user(hub, hub.ensure_user(login, type, name))


def rename_user(hub: Hub, login: str, to: str) -> Any:
    """A new login for the same id."""
    user = hub.user(login)
    user.login = to
    return render.user(hub, user)


def delete_user(hub: Hub, login: str) -> JSON:
    """Their issues and comments stay, with ``user: null``."""
    hub.user(login).deleted = True
    return {}


def create_app(hub: Hub, app_id: int, slug: str) -> Any:
    """A foreign App, to own foreign check runs and comments."""
    return render.app(hub, hub.add_app(app_id, slug, slug, None))


def install(
    hub: Hub,
    account: str,
    repositories: list[str] | None = None,
    permissions: dict[str, str] | None = None,
    installation_id: int | None = None,
    sender: str | None = None,
) -> Outcome:
    """Install the App; ``repositories`` None means all of the account."""
    owner = hub.user(account)
    chosen = None if repositories is None else {hub.repo(name).id for name in repositories}
    found = Installation(
        installation_id or hub.state.new_id(),
        hub.app.id,
        owner.id,
        dict(DEFAULT_PERMISSIONS if permissions is None else permissions),
        chosen,
    )
    hub.state.installations[found.id] = found
    who = hub.user(sender) if sender else owner
    payload = events.installation(hub, found, "created", who)
    return Outcome(render.installation(hub, found), [("installation", payload)])


def _found(hub: Hub, installation_id: int) -> Installation:
    found = hub.state.installations.get(installation_id)
    if found is None:
        raise ApiError(404, f"No installation {installation_id}.")
    return found


def change_installation(
    hub: Hub,
    installation_id: int,
    suspended: bool | None = None,
    deleted: bool | None = None,
    permissions: dict[str, str] | None = None,
) -> Outcome:
    """Suspend, unsuspend, uninstall, or accept other permissions."""
    found = _found(hub, installation_id)
    account = hub.account(found.account_id)
    action = "new_permissions_accepted"
    if suspended is not None:
        found.suspended_at = now() if suspended else None
        action = "suspend" if suspended else "unsuspend"
    if permissions is not None:
        found.permissions = dict(permissions)
    payload = None
    if deleted:
        payload = events.installation(hub, found, "deleted", account)
        found.deleted = True
    found.updated_at = now()
    payload = payload or events.installation(hub, found, action, account)
    return Outcome(render.installation(hub, found), [("installation", payload)])


def change_installation_repositories(
    hub: Hub, installation_id: int, add: list[str] | None = None, remove: list[str] | None = None
) -> Outcome:
    """Move repositories in or out of an installation."""
    found = _found(hub, installation_id)
    added = [hub.repo(name) for name in add or ()]
    removed = [hub.repo(name) for name in remove or ()]
    ids = {r.id for r in hub.covered(found)} if found.repo_ids is None else set(found.repo_ids)
    found.repo_ids = (ids | {r.id for r in added}) - {r.id for r in removed}
    sender = hub.account(found.account_id)
    payload = events.installation_repositories(hub, found, added, removed, sender)
    return Outcome(render.installation(hub, found), [("installation_repositories", payload)])


def set_webhook(
    hub: Hub,
    url: str | None,
    secret: str | None = None,
    timeout_secs: float = 10.0,
    lose_percent: int = 0,
) -> JSON:
    """Where deliveries go, what signs them, and how many of a hundred are lost on the way."""
    hub.state.hook = Hook(hub.state.hook.id, url or None, secret, timeout_secs, lose_percent)
    return {}


def emit(
    hub: Hub,
    event: str,
    payload: Any = None,
    guid: str | None = None,
    secret: str | None = None,
    form: bool = False,
    raw: str | None = None,
    headers: dict[str, str | None] | None = None,
) -> Sent:
    """Send any payload; ``raw`` sends these bytes, ``headers`` override (null removes one)."""
    data = None if raw is None else raw.encode("utf-8", "surrogateescape")
    return deliverer_of(hub).prepare(
        event, payload, guid=guid, secret=secret, form=form, raw=data, headers=headers
    )


def redeliver(hub: Hub, delivery_id: int) -> Sent:
    """Send a delivery again: same guid, same bytes."""
    deliverer = deliverer_of(hub)
    return deliverer.again(deliverer.one(delivery_id))


def ping(hub: Hub) -> Outcome:
    """The ping of the App's hook."""
    return Outcome({}, [("ping", events.ping(hub))])


def add_fault(hub: Hub, **fields: Any) -> JSON:
    """A fault switch; fields as in :class:`coven.sandbox.faults.Fault`."""
    allowed = {"method", "path", "kind", "nth", "times", "status", "seconds"}
    allowed |= {"retry_after", "after", "message"}
    unknown = set(fields) - allowed
    if unknown:
        raise ValueError(f"unknown fields {', '.join(sorted(unknown))}")
    return {"id": hub.faults.add(**{"method": "*", "path": "", **fields}).id}


def clear_faults(hub: Hub) -> JSON:
    """Everything works again."""
    hub.faults.clear()
    return {}


def clear_requests(hub: Hub) -> JSON:
    """Forget the request log."""
    hub.log.clear()
    return {}


def settings(
    hub: Hub,
    auto_events: list[str] | None = None,
    content_per_minute: int | None = None,
    token_lifetime_secs: float | None = None,
) -> JSON:
    """Switches. ``content_per_minute`` 0 turns the secondary limit off."""
    if auto_events is not None:
        hub.state.auto_events = set(auto_events)
    if content_per_minute is not None:
        hub.state.content_per_minute = content_per_minute or None
    if token_lifetime_secs is not None:
        hub.state.token_lifetime = timedelta(seconds=token_lifetime_secs)
    return {}


def set_rate_limit(
    hub: Hub, installation_id: int, limit: int = 5000, used: int = 0, reset_in: float = 3600
) -> JSON:
    """The primary limit of an installation."""
    found = hub.limit(installation_id)
    found.limit, found.used, found.reset_at = limit, used, now() + timedelta(seconds=reset_in)
    return {}


def expire_tokens(hub: Hub) -> JSON:
    """Every token that was minted is over now."""
    for token in hub.state.tokens.values():
        token.expires_at = now() - timedelta(seconds=1)
    return {"expired": len(hub.state.tokens)}


ACTIONS: dict[str, Callable[..., Any]] = {
    "reset": reset,
    "create_user": create_user,
    "rename_user": rename_user,
    "delete_user": delete_user,
    "create_app": create_app,
    "install": install,
    "change_installation": change_installation,
    "change_installation_repositories": change_installation_repositories,
    "subscribe": marketplace.subscribe,
    "set_webhook": set_webhook,
    "emit": emit,
    "redeliver": redeliver,
    "ping": ping,
    "add_fault": add_fault,
    "clear_faults": clear_faults,
    "clear_requests": clear_requests,
    "settings": settings,
    "set_rate_limit": set_rate_limit,
    "expire_tokens": expire_tokens,
}
