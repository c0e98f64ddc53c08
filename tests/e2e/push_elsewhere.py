#!/usr/bin/env python3
"""A runtime for one test: it pushes where it must not; the first word of the title says how."""

import json
import subprocess
import sys
from pathlib import Path

brief = json.loads(Path(sys.argv[sys.argv.index("--context") + 1]).read_text())
root = brief["workspace"]["root"]
how = brief["task"]["issue_title"].split()[0]


def git(*args, check=True):
    done = subprocess.run(  # noqa: TID251 - a guest, not the product
        ["git", *args], cwd=root, check=check, capture_output=True, text=True
    )
    return done.stdout.strip()


branch = git("rev-parse", "--abbrev-ref", "HEAD")
if how == "orphan":
    git("checkout", "-q", "--orphan", "elsewhere")
Path(root, "pushed.txt").write_text("x\n")
git("add", "-A")
git("commit", "-qm", "Push it")
if how in ("main", "both"):
    git("push", "-q", "origin", "HEAD:main")
if how in ("both", "orphan"):
    git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
result = {
    "contract_version": "2",
    "status": "success",
    "branch": "main" if how == "main" else branch,
    "commits": [{"sha": git("rev-parse", "HEAD"), "message": "Push it"}],
    "files_changed": ["pushed.txt"],
    "summary": "Pushed it.",
    "pr_body": "",
    "review": {
        "mode": "none",
        "evidence_status": "not_applicable",
        "reviewed_files": [],
        "supporting_files": [],
        "findings": [],
        "tests_run": [],
        "no_findings_reason": None,
        "limitations": [],
    },
    "exit_reason": None,
}
Path(sys.argv[sys.argv.index("--output") + 1]).write_text(json.dumps(result))
