"""The rules that every database ships with: disabled, unsigned, and always the same.

R001-R004 are the seed's own. R101-R111 bound what the adapter and its sessions do; they come
alive by ``coven-github governance install-defaults`` or one by one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

CREATED_BY = "system:seed"


@dataclass(frozen=True, slots=True)
class Seed:
    """One shipped rule."""

    id: str
    kind: str
    matcher: dict[str, Any]
    severity: str
    reason: str

    def row(self) -> dict[str, Any]:
        """As the table holds it before anybody touched it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "matcher": json.dumps(self.matcher, separators=(",", ":")),
            "severity": self.severity,
            "reason": self.reason,
            "namespace": "_global",
            "created_by": CREATED_BY,
            "created_at": 0,
            "enabled": 0,
            "attest_level": "unsigned",
            "revision": 1,
        }


SEEDS: tuple[Seed, ...] = (
    Seed("R001", "filesystem_write", {"glob": "/tmp/**"}, "refuse", "no /tmp writes"),
    Seed("R002", "filesystem_write", {"glob": "/var/tmp/**"}, "refuse", "no /var/tmp writes"),
    Seed(
        "R003",
        "filesystem_write",
        {"glob": "/private/tmp/**"},
        "refuse",
        "no /private/tmp writes: the real path of /tmp on macOS",
    ),
    Seed(
        "R004",
        "process_spawn",
        {"binary": "cargo", "disk_free_min_gib": 20},
        "refuse",
        "no cargo with less than 20 GiB free",
    ),
    Seed(
        "R101",
        "filesystem_write",
        {"glob_not_in": ["${workspace}/**", "${state_dir}/**"], "origin": "tool"},
        "refuse",
        "a session writes in its workspace and the state folder only",
    ),
    Seed(
        "R102",
        "filesystem_write",
        {
            "glob_any": ["**/.git/hooks/**", "**/.git/config", "**/.git/modules/**"],
            "origin": "tool",
        },
        "refuse",
        "git would run or obey what is written there",
    ),
    Seed(
        "R103",
        "filesystem_write",
        {"glob": "**/.github/workflows/**"},
        "escalate",
        "a workflow runs with the repository's secrets",
    ),
    Seed(
        "R104",
        "network_request",
        {"host_not_in": ["${github_hosts}", "${model_hosts}"]},
        "refuse",
        "requests go to GitHub and to the model only",
    ),
    Seed(
        "R105",
        "network_request",
        {"private_address": True, "host_not_in": ["${github_hosts}"]},
        "refuse",
        "no requests to private or metadata addresses",
    ),
    Seed(
        "R106",
        "network_request",
        {
            "host_any": ["${github_hosts}"],
            "method_in": ["DELETE"],
            "path_glob": "/repos/*/*/git/refs/**",
        },
        "escalate",
        "deleting a branch needs a person",
    ),
    Seed(
        "R107",
        "process_spawn",
        {
            "binary_not_in": ["git", "coven-code", "docker", "podman", "${programs}"],
            "origin": "adapter",
        },
        "refuse",
        "the adapter starts git and the runtime, nothing else",
    ),
    Seed(
        "R108",
        "bash",
        {
            "argv_prefix": ["git", "push"],
            "argv_contains_all": [
                ["--force", "-f", "--force-with-lease", "--mirror", "+*", "--delete", "-d"]
            ],
        },
        "escalate",
        "a forced push rewrites history, a deleting one removes it",
    ),
    Seed("R109", "bash", {"unanalyzable": True}, "escalate", "the command can't be judged"),
    Seed("R110", "bash", {"opaque_code": True}, "warn", "code inside a command is not judged"),
    Seed("R111", "custom", {"kind": "tool_call"}, "refuse", "a tool that is not on the known list"),
)
