"""Pages for people: readable, escaped, and nothing loaded or run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.integration.sandbox_kit import REPO, World, world

NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        pull = made.open_pull(body=f"**bold** {NASTY} [x](javascript:alert(1))", fork="sam")
        made.admin.open_issue(REPO, f"Title {NASTY}", NASTY, author="sam", labels=[NASTY])
        note = {"path": "app.py", "line": 2, "body": f"inline {NASTY}"}
        made.admin.review(REPO, pull["number"], "See below", comments=[note], author="rex")
        made.admin.comment(REPO, 1, "<!-- marker:v1 -->\nShown\n\n| a | b |\n|---|---|\n| 1 | 2 |")
        made.admin.add_check_run(
            REPO,
            name=f"Cody {NASTY}",
            head_sha=pull["head"]["sha"],
            conclusion="neutral",
            output={
                "title": "One finding",
                "summary": f"Summary {NASTY}",
                "text": "## More",
                "annotations": [
                    {
                        "path": "app.py",
                        "start_line": 3,
                        "end_line": 3,
                        "annotation_level": "warning",
                        "title": "Evaluates text",
                        "message": NASTY,
                    }
                ],
            },
            actions=[{"label": "Fix", "description": "Fix it", "identifier": "fix"}],
        )
        yield made


def _page(github: World, path: str, status: int = 200) -> requests.Response:
    answer = requests.get(github.base + path, timeout=10)
    assert answer.status_code == status
    return answer


def _paths(github: World) -> list[str]:
    run = github.admin.check_runs(REPO)[0]["id"]
    repo = f"/{REPO}"
    return ["/", repo, f"{repo}/pull/1", f"{repo}/issues/2", f"{repo}/runs/{run}"]


def test_no_page_carries_markup_of_others(github: World) -> None:
    for path in _paths(github):
        text = _page(github, path).text
        assert "<script" not in text
        assert "<img" not in text
        assert 'href="javascript' not in text


def test_every_page_has_a_strict_policy(github: World) -> None:
    for path in _paths(github):
        policy = _page(github, path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_a_pull_request_page_shows_the_review(github: World) -> None:
    text = _page(github, f"/{REPO}/pull/1").text
    for part in ("Print the items", "<strong>bold</strong>", "One finding", "Evaluates text"):
        assert part in text
    assert "inline" in text
    assert "sam:changes" in text
    assert "eval(&#39;sum(items)&#39;)" in text
    assert "<td>1</td>" in text, "tables are rendered"
    assert "marker:v1" not in text, "HTML comments are invisible, as on GitHub"


def test_a_check_run_page_shows_its_output(github: World) -> None:
    run = github.admin.check_runs(REPO)[0]["id"]
    text = _page(github, f"/{REPO}/runs/{run}").text
    for part in ("Summary", "<h2>More</h2>", "Evaluates text", ">Fix</span>", "app.py:3"):
        assert part in text


def test_what_is_not_there_is_a_page_too(github: World) -> None:
    for path in ("/acme/none", f"/{REPO}/pull/99", f"/{REPO}/runs/99"):
        assert "Not found" in _page(github, path, 404).text


def test_the_markup_of_a_page_is_closed(github: World, tmp_path: Path) -> None:
    from html.parser import HTMLParser

    class Balance(HTMLParser):
        void = frozenset({"meta", "br", "hr", "img"})

        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in self.void:
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    for path in _paths(github):
        parser = Balance()
        parser.feed(_page(github, path).text)
        assert parser.open == []
