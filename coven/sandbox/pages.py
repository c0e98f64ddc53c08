"""Pages for people: a pull request, an issue and a check run, as one would see them on GitHub."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from flask import Flask, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from coven.sandbox import anchors, checks, dump, render, render_threads
from coven.sandbox.answers import ApiError
from coven.sandbox.gitrepo import FileDiff
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, Repo, Thread

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
FOLD = re.compile(r"&lt;(/?(?:details|summary|sub|sup|kbd|br))&gt;")
"""Plain tags that GitHub lets through; everything else stays escaped text."""
SHOWN_LINES = 2_000
VERBS = {"APPROVED": "approved", "CHANGES_REQUESTED": "requested changes"}


class Pages:
    """Read-only HTML over the state. No script runs and nothing is loaded from elsewhere."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        loader = PackageLoader("coven.sandbox", "templates")
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        css, _, _ = loader.get_source(self._templates, "page.css")
        self._css = Markup(css)  # noqa: S704 - our own file, never somebody's text
        digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
        self._policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable(
            ["table", "strikethrough"]
        )

    def register(self, flask: Flask) -> None:
        """Add the pages. Every API route is more specific than these, so they never shadow one."""
        flask.add_url_rule("/", "page_index", self.index)
        flask.add_url_rule("/<owner>/<repo>", "page_repo", self.repository)
        for kind in ("pull", "issues"):
            rule = f"/<owner>/<repo>/{kind}/<int:number>"
            flask.add_url_rule(rule, f"page_{kind}", self.thread)
        flask.add_url_rule("/<owner>/<repo>/runs/<int:run_id>", "page_run", self.run)

    def show(
        self, template: str, status: int = 200, form_action: str = "'none'", **context: Any
    ) -> Response:
        """A page of another part; ``form_action``: where its form may lead."""
        response = self._page(template, **context)
        response.status_code = status
        policy = self._policy.replace("form-action 'none'", f"form-action {form_action}")
        response.headers["Content-Security-Policy"] = policy
        return response

    def _page(self, template: str, **context: Any) -> Response:
        context.setdefault("repo", None)
        html = self._templates.get_template(template).render(css=self._css, **context)
        response = Response(html, content_type="text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = self._policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _md(self, text: str | None) -> Markup:
        """Markdown as HTML. Raw HTML is text; HTML comments are not shown, as on GitHub."""
        html = self._markdown.render(COMMENT.sub("", text or "*No description.*"))
        return Markup(FOLD.sub(r"<\1>", html))  # noqa: S704 - rendered with html off

    def _missing(self) -> Response:
        response = self._page("index.html", title="Not found", rows=[])
        response.status_code = 404
        return response

    def index(self) -> Response:
        """All repositories."""
        with self.hub.state.lock:
            rows = [
                {
                    "href": f"/{self.hub.full_name(repo)}",
                    "name": self.hub.full_name(repo),
                    "note": "private" if repo.private else "public",
                }
                for repo in self.hub.state.repos.values()
                if not repo.deleted
            ]
        return self._page("index.html", title="Repositories", rows=rows)

    def repository(self, owner: str, repo: str) -> Response:
        """Threads of a repository."""
        try:
            with self.hub.state.lock:
                found = self.hub.repo(f"{owner}/{repo}")
                shown = render.repository(self.hub, found)
                home = f"/{shown['full_name']}"
                rows = [
                    {
                        "href": f"{home}/{'pull' if t.pull else 'issues'}/{t.number}",
                        "name": f"#{t.number} {t.title}",
                        "note": f"{'pull request' if t.pull else 'issue'} · {t.state}",
                    }
                    for t in self.hub.threads(found)
                ]
        except ApiError:
            return self._missing()
        return self._page("index.html", title=shown["full_name"], rows=rows, repo=shown)

    def thread(self, owner: str, repo: str, number: int) -> Response:
        """An issue or a pull request with conversation, checks and diff."""
        try:
            with self.hub.state.lock:
                found = self.hub.repo(f"{owner}/{repo}")
                context = self._thread(found, self.hub.thread(found, number))
        except ApiError:
            return self._missing()
        return self._page("thread.html", **context)

    def _thread(self, repo: Repo, thread: Thread) -> JSON:
        hub = self.hub
        shown = render_threads.issue(hub, repo, thread)
        pill = thread.state
        context: JSON = {
            "repo": render.repository(hub, repo),
            "thread": shown,
            "title": f"{thread.title} · #{thread.number}",
            "pull": None,
            "opening": self._entry(shown, "top"),
            "timeline": self._timeline(repo, thread),
            "runs": [],
            "files": [],
        }
        if thread.pull is not None:
            context["pull"] = render_threads.pull_request(hub, repo, thread)
            here = [
                r
                for r in hub.state.runs.values()
                if (r.repo_id, r.head_sha) == (repo.id, thread.pull.head_sha)
            ]
            runs = [dump.run_dump(hub, run) for run in checks.latest(here)]
            context["runs"] = runs
            comments = [
                c
                for c in hub.state.review_comments.values()
                if (c.repo_id, c.number) == (repo.id, thread.number)
            ]
            said = [
                self._entry(render_threads.review_comment(hub, c), f"discussion_r{c.id}")
                for c in comments
            ]
            notes = [{**a, "run": run["name"]} for run in runs for a in run["annotations"]]
            files = render_threads.pull_files(hub, repo, thread)
            context["files"] = [_file(f, notes, said) for f in files]
            if thread.pull.merged_at is not None:
                pill = "merged"
            elif thread.pull.draft and thread.state == "open":
                pill = "draft"
        return {**context, "pill": pill}

    def _entry(self, shown: JSON, anchor: str) -> JSON:
        return {"edits": 0, **shown, "html": self._md(shown["body"]), "anchor": anchor}

    def _timeline(self, repo: Repo, thread: Thread) -> list[JSON]:
        hub, key = self.hub, (repo.id, thread.number)
        entries = []
        for comment in hub.state.comments.values():
            if (comment.repo_id, comment.number) == key:
                shown = render_threads.comment(hub, comment)
                entry = self._entry(shown, f"issuecomment-{comment.id}")
                entries.append({**entry, "verb": "commented", "edits": comment.edits})
        for review in hub.state.reviews.values():
            if (review.repo_id, review.number) == key and review.submitted_at is not None:
                shown = render_threads.review(hub, review)
                entry = self._entry(shown, f"pullrequestreview-{review.id}")
                verb = VERBS.get(review.state, "reviewed")
                at = shown["submitted_at"]
                entries.append({**entry, "verb": verb, "created_at": at, "edits": 0})
        return sorted(entries, key=lambda e: (str(e["created_at"]), int(e["id"])))

    def run(self, owner: str, repo: str, run_id: int) -> Response:
        """A check run with its output and annotations."""
        try:
            with self.hub.state.lock:
                found = self.hub.repo(f"{owner}/{repo}")
                run = self.hub.state.runs.get(run_id)
                if run is None or run.repo_id != found.id:
                    return self._missing()
                shown, where = dump.run_dump(self.hub, run), render.repository(self.hub, found)
        except ApiError:
            return self._missing()
        output = shown["output"]
        return self._page(
            "run.html",
            title=shown["name"],
            repo=where,
            run={**shown, "annotations": [{**a, "run": None} for a in shown["annotations"]]},
            summary=self._md(output["summary"] or ""),
            text=self._md(output["text"]) if output["text"] else "",
        )


def _file(file: FileDiff, notes: list[JSON], said: list[JSON]) -> JSON:
    """A file's diff as table rows, with annotations and comments under their lines."""
    places = {a.index: a for a in anchors.anchors(file.patch or "")}
    here = [n for n in notes if n["path"] == file.filename]
    comments = [c for c in said if c["path"] == file.filename]
    rows: list[JSON] = []
    lines = (file.patch or "").split("\n") if file.patch else []
    for index, text in enumerate(lines[:SHOWN_LINES]):
        place = places.get(index)
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(text[:1], "same")
        row: JSON = {"kind": kind, "text": text, "left": None, "right": None}
        row["notes"], row["comments"] = [], []
        if place is not None:
            row["left"], row["right"] = place.left, place.right
            row["notes"] = [n for n in here if n["end_line"] == place.right]
            row["comments"] = [
                c
                for c in comments
                if (place.right if c["side"] == "RIGHT" else place.left) == c["original_line"]
            ]
        rows.append(row)
    return {
        "filename": file.filename,
        "previous": file.previous,
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "rows": rows,
    }
