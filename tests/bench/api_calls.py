"""How many calls a review makes at GitHub, by purpose, and how soon its Check Run is posted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.bench.report import ms, table
from tests.e2e.kit import BAD_CODE, Product, Repo, make_repo, running

MOST_CALLS = 12
QUEUED_SECS = 1.0
ROUNDS = 20
KEYS = {"review": {"familiar": '"cody"', "pull_request": "true"}}

PURPOSES: Mapping[str, tuple[str, ...]] = {
    "tokens": ("token",),
    "git": ("git_",),
    "who is asking": ("permission", "collaborator"),
    "Check Run": ("check_run",),
    "status comment": ("comment",),
    "review": ("review",),
    "reaction": ("reaction",),
    "head and base": ("pull", "repository", "branch"),
    "the App itself": ("app", "user"),
}
NOT_COUNTED = ("tokens", "git")


def purpose(operation: str) -> str:
    """What a call of this name is for."""
    for name, words in PURPOSES.items():
        if any(word in operation for word in words):
            return name
    return operation


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """Calls that count: no token mints, no git, and of the changes of the Check Run the first and
    the last (those in between are heartbeats)."""
    kept = {name: n for name, n in counts.items() if purpose(name) not in NOT_COUNTED}
    if "update_check_run" in kept:
        kept["update_check_run"] = min(kept["update_check_run"], 2)
    return kept


def one_review(product: Product, name: str) -> tuple[Repo, dict[str, int]]:
    """The calls of one review from its delivery to the last surface, as they count."""
    repo = make_repo(product, name)
    product.admin.clear_requests()
    pull = repo.pull({"things/pack.py": BAD_CODE})
    repo.completed(pull["head"]["sha"])
    product.settle()
    return repo, counted(product.admin.request_counts())


def queued_after(product: Product, rounds: int) -> list[float]:
    """Seconds from the delivery's answer to the Check Run on GitHub, sorted."""
    times = []
    for number in range(rounds):
        repo = make_repo(product, f"acme/queued-{time.monotonic_ns()}-{number}")
        began = time.monotonic()
        pull = repo.pull({"a.py": "x = 1\n"})
        while not repo.runs(pull["head"]["sha"]):
            time.sleep(0.01)
            if time.monotonic() - began > 20:
                raise TimeoutError("no Check Run within 20 s")
        times.append(time.monotonic() - began)
        repo.completed(pull["head"]["sha"])
        product.settle()
    return sorted(times)


def measure(folder: Path) -> None:
    """Run the product and print both."""
    with running(folder, KEYS) as product:
        one_review(product, "acme/warm")
        _, counts = one_review(product, "acme/counted")
        times = queued_after(product, ROUNDS)
    by_purpose: Counter[str] = Counter()
    for name, n in counts.items():
        by_purpose[purpose(name)] += n
    total = sum(counts.values())
    rows: list[tuple[object, ...]] = [*sorted(by_purpose.items())]
    verdict = "met" if total <= MOST_CALLS else "MISSED"
    rows.append(("all", f"{total} (target {MOST_CALLS}: {verdict})"))
    table("Calls of one review, without heartbeats, token mints and git", ["for", "calls"], rows)
    p95 = times[min(len(times) - 1, round(0.95 * (len(times) - 1)))]
    verdict = "met" if p95 <= QUEUED_SECS else "MISSED"
    table(
        "From the opened pull request to its queued Check Run",
        ["median", "p95"],
        [(ms(times[len(times) // 2]), f"{ms(p95)} (target {ms(QUEUED_SECS)}: {verdict})")],
    )
