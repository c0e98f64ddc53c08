"""The admin client's part that looks and changes nothing."""

from __future__ import annotations

from coven.sandbox.client_transport import JSON, Transport


class Readers(Transport):
    """What GitHub shows, for tests and invariants."""

    def state(self) -> JSON:
        """Everything, without secrets."""
        return dict(self.request("GET", "state"))

    def repository(self, repo: str) -> JSON:
        """One repository as in :meth:`state`; SandboxRefused when it is not there."""
        return dict(self.request("GET", "state", params={"repo": repo}))

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
