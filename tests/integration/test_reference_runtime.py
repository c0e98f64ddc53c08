"""The reference runtime as a program, on a real repository."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from coven.contract.result import read_result
from coven.sandbox.runtime import install_wrapper, readable_folders
from tests.integration.runtime_kit import backend_named, run
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.probe import runtime_version
from worker.runtime.session import Limits

BASE = {
    "README.md": "# calc\n",
    "calc.py": "def total(xs):\n    return sum(xs)\n",
    "util.py": "X = 1\n",
}
CHANGED = """def total(xs):
    return sum(xs)


def average(values):
    return sum(values) / len(values)


def find(cursor, name):
    return cursor.execute(f"SELECT * FROM people WHERE name = '{name}'")
"""
ISSUE = {
    "kind": "fix_issue",
    "issue_number": 3,
    "issue_title": "average() fails on an empty list",
    "issue_body": "`average([])` in calc.py raises ZeroDivisionError.",
}
MENTION = {"kind": "respond_to_mention", "issue_number": 7, "comment_body": "please review"}
REVIEW = {"kind": "pull_request", "files": [{"filename": "calc.py"}]}


class Ground:
    """A bare remote, a checkout of a pull request's head, and the installed program."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.program = program
        self.remote = folder / "remote.git"
        self.tree = folder / "attempt" / "tree"
        self.out = folder / "attempt" / "out"
        self.out.mkdir(parents=True)

    @classmethod
    def prepared(cls, folder: Path, program: Path) -> Ground:
        """Build everything with git."""
        self = cls(folder, program)
        self.git("init", "-q", "--bare", "-b", "main", str(self.remote), cwd=folder)
        self.git("clone", "-q", str(self.remote), str(self.tree), cwd=folder)
        self.commit(BASE, "base")
        self.git("branch", "-M", "main")
        self.git("push", "-q", "-u", "origin", "main")
        self.git("switch", "-q", "-c", "topic")
        self.commit({"calc.py": CHANGED}, "Add average")
        return self

    def copy(self, folder: Path) -> Ground:
        """The same ground in another folder, without asking git for all of it again."""
        twin = Ground(folder, self.program)
        shutil.copytree(self.remote, twin.remote)
        shutil.copytree(self.tree, twin.tree)
        twin.git("remote", "set-url", "origin", str(twin.remote))
        return twin

    def git(self, *args: str, cwd: Path | None = None) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(  # noqa: TID251 - the test plays the adapter
            ["git", *names, *args], cwd=cwd or self.tree, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self, files: dict[str, str], message: str) -> None:
        for name, text in files.items():
            (self.tree / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def brief(self, task: dict[str, Any], **changes: Any) -> Path:
        model = changes.pop("model", None)
        brief = {
            "contract_version": "2",
            "trigger": "issue_mention",
            "repo": {"owner": "o", "name": "r", "clone_url": "u", "default_branch": "main"},
            "task": task,
            "familiar": {"id": "cody", "display_name": "Cody", "model": model, "skills": []},
            "workspace": {"root": str(self.tree)},
            **changes,
        }
        path = self.out.parent / "brief.json"
        path.write_text(json.dumps(brief))
        return path

    def argv(self, brief: Path, *flags: str) -> tuple[str, ...]:
        result = str(self.out / "result.json")
        return (
            str(self.program),
            "--headless",
            "--context",
            str(brief),
            "--output",
            result,
            *flags,
        )

    def run(self, brief: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.out), "LEAK": "leaked-value"}
        return subprocess.run(  # noqa: TID251 - the test plays the adapter
            self.argv(brief, *flags), capture_output=True, text=True, timeout=60, env=environ,
            check=False,
        )  # fmt: skip

    @property
    def result(self) -> Any:
        return json.loads((self.out / "result.json").read_text())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("ground")
    return Ground.prepared(folder, install_wrapper(folder / "bin"))


@pytest.fixture
def ground(template: Ground, tmp_path: Path) -> Ground:
    return template.copy(tmp_path)


def test_a_review_in_the_real_dialect(ground: Ground) -> None:
    begun = time.monotonic()
    done = ground.run(ground.brief(MENTION, review_context=REVIEW))
    assert time.monotonic() - begun < 5
    assert done.returncode == 0, done.stderr
    result = ground.result
    assert [(item["line"], item["severity"]) for item in result["review"]["findings"]] == [
        (6, "high"),
        (10, "high"),
    ]
    assert result["review"]["memory"] == {"domains_loaded": ["default-branch"], "entries": []}
    assert result["review"]["evidence_status"] == "complete"
    assert result["review"]["supporting_files"] == ["util.py"]
    assert result["branch"] == "topic"
    assert [len(commit["sha"]) for commit in result["commits"]] == [40]
    assert "[Tool Read] calc.py" in done.stderr
    assert done.stdout.startswith("Let me look at what changed")
    assert result["pr_body"].startswith("Let me look at what changed")


def test_only_what_the_pull_request_changed_is_reported(ground: Ground) -> None:
    ground.git("switch", "-q", "main")
    ground.commit({"old.py": "eval(x)\n"}, "old defect")
    ground.git("push", "-q", "origin", "main")
    ground.git("switch", "-q", "-c", "second")
    ground.commit({"old.py": "eval(x)\neval(y)\n"}, "new defect")
    files = {"kind": "pull_request", "files": [{"filename": "old.py"}]}
    ground.run(ground.brief(MENTION, review_context=files))
    assert [item["line"] for item in ground.result["review"]["findings"]] == [2]


def test_a_clean_review_says_why(ground: Ground) -> None:
    files = {"kind": "pull_request", "files": [{"filename": "util.py"}]}
    ground.run(ground.brief(MENTION, review_context=files))
    review = ground.result["review"]
    assert review["findings"] == []
    assert "`util.py`" in review["no_findings_reason"]
    assert len(review["no_findings_reason"]) >= 40


def test_a_review_without_files_has_no_evidence(ground: Ground) -> None:
    ground.run(ground.brief(MENTION, review_context={"kind": "pull_request", "files": []}))
    assert ground.result["review"]["evidence_status"] == "missing"
    assert ground.result["status"] == "partial"


@pytest.mark.parametrize("dialect", ["", "sandbox:contract-v2"])
@pytest.mark.parametrize("work", ["review", "repair"])
def test_both_dialects_are_read_by_the_contract(ground: Ground, dialect: str, work: str) -> None:
    context = REVIEW if work == "review" else None
    task = MENTION if work == "review" else ISSUE
    brief = ground.brief(task, review_context=context, model=dialect or None)
    begun = time.time() - 1
    ground.run(brief, *(() if work == "review" else ("--hosted-repair",)))
    reading = read_result(ground.out, "result.json", not_before=begun, expected_version="2")
    assert reading.problem is None
    assert reading.result is not None
    assert bool(reading.tolerated) is (dialect == "")


def test_a_hosted_repair_leaves_the_edit_uncommitted(ground: Ground) -> None:
    before = ground.git("rev-parse", "HEAD")
    done = ground.run(ground.brief(ISSUE), "--hosted-repair")
    assert done.returncode == 0
    assert "+    if not values:" in ground.git("diff")
    assert ground.git("rev-parse", "HEAD") == before
    assert ground.result["files_changed"] == ["calc.py"]


def test_a_fix_commits_and_pushes_the_reserved_branch(ground: Ground) -> None:
    ground.git("switch", "-q", "-c", "cody/fix-3-0123abcd")
    start = ground.git("rev-parse", "HEAD").strip()
    done = ground.run(ground.brief(ISSUE, model="sandbox:contract-v2"))
    assert done.returncode == 0, done.stderr
    result = ground.result
    head = ground.git("ls-remote", "origin", "refs/heads/cody/fix-3-0123abcd").split("\t")[0]
    assert result["branch"] == "cody/fix-3-0123abcd"
    assert [commit["sha"] for commit in result["commits"]] == [head]
    assert ground.git("rev-parse", f"{head}^").strip() == start
    assert "memory" not in result["review"]


def test_a_push_that_fails_is_an_infra_error_by_the_strict_contract(ground: Ground) -> None:
    ground.git("switch", "-q", "-c", "cody/fix-3-0123abcd")
    ground.git("remote", "set-url", "origin", "/nowhere.git")
    done = ground.run(ground.brief(ISSUE, model="sandbox:contract-v2"))
    assert done.returncode == 2
    assert ground.result["exit_reason"] == "infra_error"


def test_what_is_not_understood_becomes_a_note(ground: Ground) -> None:
    task = {**ISSUE, "issue_title": "Make it nicer", "issue_body": ""}
    done = ground.run(ground.brief(task), "--hosted-repair")
    assert done.returncode == 0
    assert (ground.tree / "docs" / "notes" / "issue-3.md").is_file()
    assert ground.result["files_changed"] == ["README.md", "calc.py"]


def test_a_hosted_repair_of_new_files_only_gives_up(ground: Ground) -> None:
    ground.git("rm", "-q", "README.md")
    ground.git("commit", "-q", "-m", "no readme")
    task = {**ISSUE, "issue_title": "Make it nicer", "issue_body": ""}
    assert ground.run(ground.brief(task), "--hosted-repair").returncode == 1
    assert ground.result["exit_reason"] == "ambiguous_spec"


def test_a_mention_without_work_is_answered(ground: Ground) -> None:
    task = {**MENTION, "comment_body": "how are you?"}
    assert ground.run(ground.brief(task)).returncode == 0
    assert ground.result["status"] == "success"


@pytest.mark.parametrize(
    ("breakage", "code"), [("flag", 2), ("brief", 1), ("missing brief", 1), ("scenario", 1)]
)
def test_bad_input_ends_without_a_result(ground: Ground, breakage: str, code: int) -> None:
    brief = ground.brief(MENTION, model="sandbox:nonsense" if breakage == "scenario" else None)
    if breakage == "brief":
        brief.write_text("{}")
    elif breakage == "missing brief":
        brief.unlink()
    done = ground.run(brief, *(["--bogus"] if breakage == "flag" else []))
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert not (ground.out / "result.json").exists()


@pytest.mark.parametrize(
    ("model", "code", "status", "reason"),
    [
        ("partial", 0, "partial", None),
        ("failure", 1, "failure", "test_failure"),
        ("turn-limit", 2, "failure", "infra_error"),
        ("auth-error", 2, "failure", "infra_error"),
        ("needs-input", 3, "needs_input", "ambiguous_spec"),
        ("exit-1", 1, "failure", "test_failure"),
        ("exit-2", 2, "failure", "infra_error"),
        ("exit-3", 3, "needs_input", "ambiguous_spec"),
        ("flaky", 2, "failure", "infra_error"),
    ],
)
def test_a_scenario_with_a_result(
    ground: Ground, model: str, code: int, status: str, reason: str | None
) -> None:
    done = ground.run(ground.brief(MENTION, review_context=REVIEW, model=f"sandbox:{model}"))
    result = ground.result
    assert (done.returncode, result["status"], result["exit_reason"]) == (code, status, reason)


@pytest.mark.parametrize(
    ("model", "code"),
    [("missing", 0), ("exit-7", 7), ("exit-126", 126), ("crash", 101), ("signal", -9),
     ("signal,11", -11)],
)  # fmt: skip
def test_a_scenario_without_a_result(ground: Ground, model: str, code: int) -> None:
    done = ground.run(ground.brief(MENTION, review_context=REVIEW, model=f"sandbox:{model}"))
    assert done.returncode == code
    assert not (ground.out / "result.json").exists()


@pytest.mark.parametrize(
    ("model", "kind"),
    [("symlink-result", stat.S_IFLNK), ("fifo-result", stat.S_IFIFO),
     ("directory-result", stat.S_IFDIR)],
)  # fmt: skip
def test_a_result_of_the_wrong_kind(ground: Ground, model: str, kind: int) -> None:
    ground.run(ground.brief(MENTION, review_context=REVIEW, model=f"sandbox:{model}"))
    assert stat.S_IFMT(os.lstat(ground.out / "result.json").st_mode) == kind


def test_a_flaky_runtime_recovers(ground: Ground) -> None:
    brief = ground.brief(MENTION, review_context=REVIEW, model="sandbox:flaky:2")
    assert [ground.run(brief).returncode for _ in range(3)] == [2, 2, 0]


def test_spoiled_contents(ground: Ground) -> None:
    brief = ground.brief(MENTION, review_context=REVIEW, model="sandbox:wrong-version,leak-env")
    ground.run(brief)
    assert ground.result["contract_version"] == "9"
    assert "LEAK=leaked-value" in ground.result["pr_body"]
    ground.run(ground.brief(MENTION, review_context=REVIEW, model="sandbox:big-result,2"))
    assert (ground.out / "result.json").stat().st_size > 2 * 2**20
    ground.run(ground.brief(MENTION, review_context=REVIEW, model="sandbox:malformed"))
    with pytest.raises(ValueError):
        _ = ground.result


def test_honest_memory_stays_within_the_policy(ground: Ground) -> None:
    policy = {
        "enabled": True,
        "read_scopes": ["repo"],
        "write_scopes": ["repo"],
        "approval_required": True,
    }
    brief = ground.brief(
        MENTION, review_context=REVIEW, model="sandbox:memory-honest", memory_policy=policy,
        audit_instruction="[repo/o/r/conventions/rounding] Round half up.\n[tenant/4/x/y] Hidden.",
    )  # fmt: skip
    ground.run(brief)
    used = ground.result["memory_used"]
    assert used["read"] == [{"id": "repo/o/r/conventions/rounding", "scope": "repo"}]
    assert [item["approval"] for item in used["proposed"]] == ["pending"]
    assert used["proposed"][0]["key"].startswith("repo/o/r/")


@pytest.mark.parametrize("backend_name", ["host", "bubblewrap"])
def test_it_runs_under_supervision(ground: Ground, tmp_path: Path, backend_name: str) -> None:
    backend = backend_named(backend_name)
    if isinstance(backend, Bubblewrap):
        backend = Bubblewrap(readable_folders(ground.program.parent))
    brief = ground.brief(MENTION, review_context=REVIEW, model="sandbox:grandchildren")
    end = run(
        backend, ground.tree, ground.argv(brief),
        writable=(ground.tree, ground.out), readable=(brief,),
    )  # fmt: skip
    assert (end.exit_code, end.spawn_error) == (0, None), end.stderr_tail
    assert len(ground.result["review"]["findings"]) == 2
    assert runtime_version(backend, str(ground.program))[0] == (
        "coven-code 0.7.0 (reference runtime)"
    )


@pytest.mark.parametrize(
    ("model", "limits", "expected"),
    [
        ("hang", Limits(), (True, 15, None)),
        ("ignore-sigterm", Limits(), (True, 9, None)),
        ("hog-memory,400", Limits(memory_bytes=100_000_000), (False, 9, "memory")),
        ("hog-disk,60", Limits(workspace_bytes=20_000_000), (False, 9, "disk")),
        ("fork-bomb,80", Limits(processes=40), (False, 9, "processes")),
        ("huge-output,40", Limits(), (False, None, None)),
    ],
)
def test_a_scenario_that_only_supervision_can_end(
    ground: Ground, model: str, limits: Limits, expected: tuple[bool, int | None, str | None]
) -> None:
    brief = ground.brief(MENTION, review_context=REVIEW, model=f"sandbox:{model}")
    patient = expected[2] is not None or expected[1] is None
    end = run(
        backend_named("host"), ground.tree, ground.argv(brief), limits=limits,
        writable=(ground.tree, ground.out), timeout_secs=30.0 if patient else 1.5,
    )  # fmt: skip
    assert (end.timed_out, end.signal, end.breach) == expected
    assert end.duration_secs < 15
