"""A typed helper for the sandbox's admin API: what people do on GitHub, and what tests look at."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Literal

import requests

JSON = dict[str, Any]
Deliver = bool | Literal["lost", "form"]
Files = dict[str, "str | bytes | JSON | None"]
"""Path to text, bytes, None (delete) or ``{"mode": "120000", "content": "target"}``."""

TIMEOUT = 60.0


class SandboxRefused(Exception):
    """The sandbox refused an action; the message is its reason."""


@dataclass(frozen=True)
class Delivered:
    """One attempt to deliver a webhook, and what the receiver said."""

    id: int
    guid: str
    event: str
    action: str | None
    status: str
    status_code: int
    seconds: float
    response: str
    redelivery: bool = False


@dataclass
class Done:
    """What an action made (as the REST API shows it), and the deliveries it sent."""

    result: Any
    deliveries: list[Delivered] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Number of the issue or pull request."""
        return int(self.result["number"])

    @property
    def id(self) -> int:
        """Id of the object."""
        return int(self.result["id"])

    @property
    def delivered(self) -> Delivered:
        """The last delivery."""
        return self.deliveries[-1]


def _packed(files: Files | None) -> JSON | None:
    if files is None:
        return None
    packed: JSON = {}
    for path, content in files.items():
        if isinstance(content, bytes):
            content = {"base64": base64.b64encode(content).decode()}
        packed[path] = content
    return packed


class SandboxAdmin:
    """Client of one sandbox. Methods raise SandboxRefused with the reason."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")

    def _request(self, method: str, path: str, **kwargs: Any) -> Any:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, f"{self.base_url}/_sandbox/{path}", timeout=TIMEOUT, **kwargs
            )
        if answer.status_code >= 400:
            raise SandboxRefused(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def act(self, action: str, *, deliver: Deliver = False, **body: Any) -> Done:
        """Any action by name."""
        sent = {key: value for key, value in body.items() if value is not None}
        answer = self._request("POST", action, json={**sent, "deliver": deliver})
        return Done(answer["result"], [Delivered(**one) for one in answer["deliveries"]])

    # Accounts, installations, switches

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

    def accept_permissions(
        self, installation_id: int, permissions: dict[str, str], *, deliver: Deliver = False
    ) -> Done:
        """Replace what the installation grants."""
        return self._installation(installation_id, deliver, permissions=permissions)

    def _installation(self, installation_id: int, deliver: Deliver, **fields: Any) -> Done:
        return self.act(
            "change_installation", installation_id=installation_id, deliver=deliver, **fields
        )

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

    def set_webhook(self, url: str | None, secret: str | None, timeout_secs: float = 10.0) -> None:
        """Where deliveries go, and the secret that signs them."""
        self.act("set_webhook", url=url or "", secret=secret, timeout_secs=timeout_secs)

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
        return list(self._request("GET", "faults"))

    def requests(self, since: int = 0) -> list[JSON]:
        """The request log, oldest first."""
        return list(self._request("GET", f"requests?since={since}")["requests"])

    def request_counts(self) -> dict[str, int]:
        """Requests by operation, such as ``create_check_run``."""
        return dict(self._request("GET", "requests")["counts"])

    def unexpected(self) -> list[JSON]:
        """Requests to routes that the sandbox does not know: there should be none."""
        return [one for one in self.requests() if one["unexpected"]]

    def clear_requests(self) -> None:
        """Forget the request log."""
        self.act("clear_requests")

    def deliveries(self) -> list[Delivered]:
        """Every attempt to deliver, oldest first."""
        return [Delivered(**one) for one in self._request("GET", "deliveries")]

    # Repositories

    def create_repository(
        self,
        full_name: str,
        *,
        files: Files | None = None,
        private: bool = False,
        default_branch: str = "main",
        owner_type: str = "User",
        protected: list[str] | None = None,
        drafts: bool = True,
        message: str = "Initial commit",
        empty: bool = False,
        deliver: Deliver = False,
    ) -> Done:
        """A repository with a first commit; its owner is made when new."""
        return self.act(
            "create_repository",
            full_name=full_name,
            files=_packed(files),
            private=private,
            default_branch=default_branch,
            owner_type=owner_type,
            protected=protected,
            drafts=drafts,
            message=message,
            empty=empty,
            deliver=deliver,
        )

    def fork_repository(self, repo: str, owner: str, name: str | None = None) -> JSON:
        """A fork in another account."""
        return dict(self.act("fork_repository", repo=repo, owner=owner, name=name).result)

    def set_role(self, repo: str, login: str, role: str | None, base: str | None = None) -> None:
        """A collaborator's role; a custom one names its ``base``; None removes them."""
        body = {"repo": repo, "login": login, "role": role, "base": base}
        self._request("POST", "set_role", json=body)

    def change_repository(
        self,
        repo: str,
        *,
        private: bool | None = None,
        archived: bool | None = None,
        default_branch: str | None = None,
        protected: list[str] | None = None,
        sender: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """Visibility, archive, default branch, protected branches."""
        return self.act(
            "change_repository",
            repo=repo,
            private=private,
            archived=archived,
            default_branch=default_branch,
            protected=protected,
            sender=sender,
            deliver=deliver,
        )

    def rename_repository(self, repo: str, name: str, *, deliver: Deliver = False) -> Done:
        """A new name; the old one answers 301."""
        return self.act("change_repository", repo=repo, name=name, deliver=deliver)

    def transfer_repository(self, repo: str, owner: str, *, deliver: Deliver = False) -> Done:
        """A new owner; the old name answers 301."""
        return self.act("change_repository", repo=repo, owner=owner, deliver=deliver)

    def delete_repository(self, repo: str, *, deliver: Deliver = False) -> Done:
        """Gone; pull requests from it have ``head.repo: null``."""
        return self.act("change_repository", repo=repo, deleted=True, deliver=deliver)

    def push(
        self,
        repo: str,
        branch: str,
        files: Files,
        *,
        message: str = "Change files",
        author: str | None = None,
        start: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """A commit; open pull requests of the branch follow (``synchronize``)."""
        return self.act(
            "push",
            repo=repo,
            branch=branch,
            files=_packed(files),
            message=message,
            author=author,
            start=start,
            deliver=deliver,
        )

    def set_branch(
        self,
        repo: str,
        branch: str,
        sha: str | None,
        *,
        sender: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """Force a branch to a commit, or delete it with None."""
        body = {"repo": repo, "branch": branch, "sha": sha, "sender": sender, "deliver": deliver}
        answer = self._request("POST", "set_branch", json=body)
        return Done(answer["result"], [Delivered(**one) for one in answer["deliveries"]])

    def read_file(self, repo: str, ref: str, path: str) -> str | None:
        """A file's text at a ref; None when it is not there."""
        done = self.act("read_file", repo=repo, ref=ref, path=path)
        content = done.result["content"]
        return None if content is None else str(content)

    def commits(self, repo: str, ref: str, limit: int = 100) -> list[JSON]:
        """Commits of a ref, newest first."""
        return list(self.act("list_commits", repo=repo, ref=ref, limit=limit).result)

    # Threads

    def open_issue(
        self,
        repo: str,
        title: str,
        body: str | None = None,
        *,
        author: str | None = None,
        labels: list[str] | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """An issue."""
        return self.act(
            "open_issue",
            repo=repo,
            title=title,
            body=body,
            author=author,
            labels=labels,
            deliver=deliver,
        )

    def open_pull(
        self,
        repo: str,
        title: str,
        files: Files | None = None,
        *,
        branch: str = "changes",
        body: str | None = None,
        author: str | None = None,
        base: str | None = None,
        draft: bool = False,
        fork: str | None = None,
        message: str | None = None,
        labels: list[str] | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """A pull request from file changes; ``fork`` names the account of a fork."""
        return self.act(
            "open_pull",
            repo=repo,
            title=title,
            files=_packed(files),
            branch=branch,
            body=body,
            author=author,
            base=base,
            draft=draft,
            fork=fork,
            message=message,
            labels=labels,
            deliver=deliver,
        )

    def change_thread(
        self,
        repo: str,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
        draft: bool | None = None,
        base: str | None = None,
        locked: bool | None = None,
        sender: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """Edit, close, reopen, mark ready (``draft=False``) or draft, retarget, lock."""
        return self.act(
            "change_thread",
            repo=repo,
            number=number,
            title=title,
            body=body,
            state=state,
            draft=draft,
            base=base,
            locked=locked,
            sender=sender,
            deliver=deliver,
        )

    def label(
        self,
        repo: str,
        number: int,
        name: str,
        *,
        sender: str | None = None,
        remove: bool = False,
        deliver: Deliver = False,
    ) -> Done:
        """Label a thread, or take a label off."""
        body = {"repo": repo, "number": number, "name": name, "sender": sender, "remove": remove}
        return self.act("label", deliver=deliver, **body)

    def assign(
        self,
        repo: str,
        number: int,
        login: str,
        *,
        sender: str | None = None,
        remove: bool = False,
        deliver: Deliver = False,
    ) -> Done:
        """Assign or unassign somebody."""
        body = {"repo": repo, "number": number, "login": login, "sender": sender, "remove": remove}
        return self.act("assign", deliver=deliver, **body)

    def comment(
        self,
        repo: str,
        number: int,
        body: str,
        *,
        author: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """A comment on an issue or pull request."""
        return self.act(
            "comment", repo=repo, number=number, body=body, author=author, deliver=deliver
        )

    def edit_comment(
        self, comment_id: int, body: str, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """Edit anybody's comment."""
        return self.act(
            "change_comment", comment_id=comment_id, body=body, sender=sender, deliver=deliver
        )

    def delete_comment(
        self, comment_id: int, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """Delete anybody's comment."""
        return self.act(
            "change_comment", comment_id=comment_id, deleted=True, sender=sender, deliver=deliver
        )

    def review(
        self,
        repo: str,
        number: int,
        body: str = "",
        *,
        event: Literal["APPROVE", "REQUEST_CHANGES", "COMMENT"] = "COMMENT",
        comments: list[JSON] | None = None,
        author: str | None = None,
        deliver: Deliver = False,
    ) -> Done:
        """A person's review; ``comments`` are ``{"path", "line", "body", …}``."""
        return self.act(
            "review",
            repo=repo,
            number=number,
            body=body,
            event=event,
            comments=comments,
            author=author,
            deliver=deliver,
        )

    def merge(
        self, repo: str, number: int, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """Merge a pull request."""
        return self.act("merge", repo=repo, number=number, sender=sender, deliver=deliver)

    # Checks

    def add_check_run(self, repo: str, **fields: Any) -> JSON:
        """A check run made elsewhere: ``name``, ``head_sha``, …, ``app_id`` of a foreign App."""
        return dict(self.act("add_check_run", repo=repo, **fields).result)

    def rerequest_check_run(
        self, check_run_id: int, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """*Re-run* on one check."""
        return self.act(
            "rerequest_check_run", check_run_id=check_run_id, sender=sender, deliver=deliver
        )

    def rerequest_check_suite(
        self, check_suite_id: int, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """*Re-run all checks*."""
        return self.act(
            "rerequest_check_suite", check_suite_id=check_suite_id, sender=sender, deliver=deliver
        )

    def click(
        self,
        check_run_id: int,
        identifier: str,
        *,
        sender: str | None = None,
        force: bool = False,
        deliver: Deliver = False,
    ) -> Done:
        """Press a button of a check run (``requested_action``)."""
        return self.act(
            "click",
            check_run_id=check_run_id,
            identifier=identifier,
            sender=sender,
            force=force,
            deliver=deliver,
        )

    # Readers

    def state(self) -> JSON:
        """Everything, without secrets."""
        return dict(self._request("GET", "state"))

    def repository(self, repo: str) -> JSON:
        """One repository of :meth:`state`; SandboxRefused when it is not there."""
        for one in self.state()["repositories"]:
            if one["full_name"].casefold() == repo.casefold():
                return dict(one)
        raise SandboxRefused(f"no repository {repo}")

    def _part(self, repo: str, part: str, number: int | None = None) -> list[JSON]:
        found = self.repository(repo)[part]
        return [one for one in found if number is None or one["number"] == number]

    def check_runs(
        self, repo: str, sha: str | None = None, external_id: str | None = None
    ) -> list[JSON]:
        """All check runs (not only the latest), with ``annotations``, ``actions``, ``history``."""
        return [
            run
            for run in self._part(repo, "check_runs")
            if (sha is None or run["head_sha"] == sha)
            and (external_id is None or run["external_id"] == external_id)
        ]

    def comments(self, repo: str, number: int | None = None) -> list[JSON]:
        """Comments of a conversation, with ``edits``: how often each was changed."""
        return self._part(repo, "comments", number)

    def reviews(self, repo: str, number: int | None = None) -> list[JSON]:
        """Reviews of a pull request, pending ones too."""
        return self._part(repo, "reviews", number)

    def review_comments(self, repo: str, number: int | None = None) -> list[JSON]:
        """Comments on lines of a pull request."""
        return self._part(repo, "review_comments", number)

    def pulls(self, repo: str, state: str | None = None) -> list[JSON]:
        """Pull requests, oldest first."""
        return [p for p in self._part(repo, "pulls") if state is None or p["state"] == state]

    def pull(self, repo: str, number: int) -> JSON:
        """One pull request."""
        return self._part(repo, "pulls", number)[0]

    def issues(self, repo: str) -> list[JSON]:
        """Issues without the pull requests."""
        return self._part(repo, "issues")

    def branches(self, repo: str) -> dict[str, str]:
        """Branch name to head sha."""
        return dict(self.repository(repo)["branches"])

    def tokens(self) -> list[JSON]:
        """Minted tokens: scope and state, never the value."""
        return list(self.state()["tokens"])
