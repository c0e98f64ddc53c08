"""The admin client's part for accounts, installations, deliveries, faults and the request log."""

from __future__ import annotations

from typing import Any, Literal

from coven.sandbox.client_transport import JSON, Deliver, Delivered, Done, Transport


class WorldActions(Transport):
    """What surrounds the repositories."""

    def reset(self) -> None:
        """Forget everything but the App."""
        self.act("reset")

    def create_user(self, login: str, type: str = "User", name: str | None = None) -> JSON:
        """An account (User, Bot, Organization)."""
        return dict(self.act("create_user", login=login, type=type, name=name).result)

    def rename_user(self, login: str, to: str) -> None:
        """A new login for the same id."""
        self.act("rename_user", login=login, to=to)

    def delete_user(self, login: str) -> None:
        """What they wrote stays, with ``user: null``."""
        self.act("delete_user", login=login)

    def create_app(self, app_id: int, slug: str) -> JSON:
        """A foreign App."""
        return dict(self.act("create_app", app_id=app_id, slug=slug).result)

    def install(
        self,
        account: str,
        *,
        repositories: list[str] | None = None,
        permissions: dict[str, str] | None = None,
        installation_id: int | None = None,
        sender: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """Install the App on an account; the result has the installation's ``id``."""
        return self.act(
            "install",
            account=account,
            repositories=repositories,
            permissions=permissions,
            installation_id=installation_id,
            sender=sender,
            deliver=deliver,
        )

    def suspend(self, installation_id: int, *, deliver: Deliver = False) -> Done:
        """Suspend an installation."""
        return self._installation(installation_id, deliver, suspended=True)

    def unsuspend(self, installation_id: int, *, deliver: Deliver = False) -> Done:
        """Take the suspension back."""
        return self._installation(installation_id, deliver, suspended=False)

    def uninstall(self, installation_id: int, *, deliver: Deliver = False) -> Done:
        """Remove the App from the account."""
        return self._installation(installation_id, deliver, deleted=True)

    def _installation(self, installation_id: int, deliver: Deliver, **fields: Any) -> Done:
        return self.act(
            "change_installation", installation_id=installation_id, deliver=deliver, **fields
        )

    def subscribe(self, account: str, plan: str | None, **fields: Any) -> None:
        """Give an account a marketplace plan (Starter, Team, Dedicated); None takes it away."""
        self.act("subscribe", account=account, plan=plan, **fields)

    def change_installation_repositories(
        self,
        installation_id: int,
        *,
        add: list[str] | None = None,
        remove: list[str] | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """Move repositories in or out."""
        return self.act(
            "change_installation_repositories",
            installation_id=installation_id,
            add=add,
            remove=remove,
            deliver=deliver,
        )

    def set_webhook(
        self,
        url: str | None,
        secret: str | None,
        timeout_secs: float = 10.0,
        lose_percent: int = 0,
    ) -> None:
        """Where deliveries go, the secret that signs them, and how many of a hundred are lost."""
        self.act(
            "set_webhook",
            url=url or "",
            secret=secret,
            timeout_secs=timeout_secs,
            lose_percent=lose_percent,
        )

    def emit(
        self,
        event: str,
        payload: Any = None,
        *,
        guid: str | None = None,
        secret: str | None = None,
        form: bool = False,
        raw: str | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> Delivered:
        """Send any payload, signed; see the server's ``emit`` for the overrides."""
        done = self.act(
            "emit",
            event=event,
            payload=payload,
            guid=guid,
            secret=secret,
            form=form,
            raw=raw,
            headers=headers,
        )
        return Delivered(**done.result)

    def redeliver(self, delivery_id: int) -> Delivered:
        """Send a delivery again: same guid, same bytes."""
        return Delivered(**self.act("redeliver", delivery_id=delivery_id).result)

    def ping(self) -> Delivered:
        """The ping of the App's hook."""
        return self.act("ping", deliver=True).delivered

    def settings(
        self,
        *,
        auto_events: list[str] | None = None,
        content_per_minute: int | None = None,
        token_lifetime_secs: float | None = None,
    ) -> None:
        """Events sent on their own (``["*"]``: all), secondary limit (0: off), token life."""
        self.act(
            "settings",
            auto_events=auto_events,
            content_per_minute=content_per_minute,
            token_lifetime_secs=token_lifetime_secs,
        )

    def set_rate_limit(
        self, installation_id: int, *, limit: int = 5000, used: int = 0, reset_in: float = 3600
    ) -> None:
        """The primary rate limit of an installation."""
        self.act(
            "set_rate_limit",
            installation_id=installation_id,
            limit=limit,
            used=used,
            reset_in=reset_in,
        )

    def expire_tokens(self) -> None:
        """Every minted token is over now."""
        self.act("expire_tokens")

    # Faults and the request log

    def fault(
        self,
        method: str,
        path: str,
        kind: Literal["drop", "delay", "status", "expire"],
        *,
        nth: int = 1,
        times: int = 1,
        status: int = 502,
        seconds: float = 0.0,
        retry_after: int | None = None,
        after: bool = False,
        message: str | None = None,
    ) -> int:
        """Let the ``nth`` matching request (and ``times - 1`` more) go wrong.

        ``after`` does what was asked first and loses the answer.
        """
        done = self.act(
            "add_fault",
            method=method,
            path=path,
            kind=kind,
            nth=nth,
            times=times,
            status=status,
            seconds=seconds,
            retry_after=retry_after,
            after=after,
            message=message,
        )
        return done.id

    def clear_faults(self) -> None:
        """Everything works again."""
        self.act("clear_faults")

    def faults(self) -> list[JSON]:
        """Switches with ``seen`` and ``fired``."""
        return list(self.request("GET", "faults"))

    def requests(self, since: int = 0) -> list[JSON]:
        """The request log, oldest first."""
        return list(self.request("GET", f"requests?since={since}")["requests"])

    def request_counts(self) -> dict[str, int]:
        """Requests by operation, such as ``create_check_run``."""
        return dict(self.request("GET", "requests")["counts"])

    def unexpected(self) -> list[JSON]:
        """Requests to routes that the sandbox does not know: there should be none."""
        return [one for one in self.requests() if one["unexpected"]]

    def clear_requests(self) -> None:
        """Forget the request log."""
        self.act("clear_requests")

    def deliveries(self) -> list[Delivered]:
        """Every attempt to deliver, oldest first."""
        return [Delivered(**one) for one in self.request("GET", "deliveries")]
