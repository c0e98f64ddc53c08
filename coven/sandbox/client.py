"""A typed client of the sandbox's admin API: what people do on GitHub, and what tests look at."""

from __future__ import annotations

from typing import Any, Literal

from coven.sandbox.client_readers import Readers
from coven.sandbox.client_transport import (
    JSON,
    Deliver,
    Delivered,
    Done,
    Files,
    SandboxRefused,
    packed,
)
from coven.sandbox.client_world import WorldActions

__all__ = ["Deliver", "Delivered", "Done", "Files", "SandboxAdmin", "SandboxRefused"]


class SandboxAdmin(WorldActions, Readers):
    """Client of one sandbox. Methods raise SandboxRefused with the reason."""

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
            files=packed(files),
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
        self.request("POST", "set_role", json=body)

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
            files=packed(files),
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
        answer = self.request("POST", "set_branch", json=body)
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
            files=packed(files),
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

    def delete_issue(
        self, repo: str, number: int, *, sender: str | None = None, deliver: Deliver = False
    ) -> Done:
        """Delete an issue; it answers 410 from now on."""
        return self.act("delete_issue", repo=repo, number=number, sender=sender, deliver=deliver)

    def label(
        self,
        repo: str,
        number: int,
        name: str,
        *,
        sender: str | None = None,
        remove: bool = False,
        minutes_ago: int = 0,
        deliver: Deliver = False,
    ) -> Done:
        """Label a thread, or take a label off."""
        body = {"repo": repo, "number": number, "name": name, "sender": sender, "remove": remove}
        return self.act("label", deliver=deliver, minutes_ago=minutes_ago, **body)

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
