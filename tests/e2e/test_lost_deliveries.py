"""A GitHub that loses 30 of 100 deliveries: in the end nothing is lost and nothing doubled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from coven.clock import SystemClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.recovery import Recovered, recover_deliveries
from coven.sandbox.stack import wait_for
from coven.store import deliveries, recoveries
from coven.values import DeliveryId
from tests.e2e.kit import BAD_CODE, Product, Repo

pytestmark = [pytest.mark.xdist_group("e2e-lost"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "20"},
}


def recovered(product: Product) -> Recovered:
    github = GitHub(product.stack.settings, SystemClock(), Seam())
    return recover_deliveries(
        product.store, github, SystemClock(), timedelta(days=3), settle=timedelta(0)
    )


def test_what_github_lost_is_delivered_again_once(repo: Repo) -> None:
    product, stack = repo.product, repo.product.stack
    repo.admin.set_webhook(stack.webhook_url, stack.webhook_secret, lose_percent=30)
    number = repo.issue("Something", "to talk about")
    for count in range(20):
        repo.say(number, f"just talk {count}")
    heads = [
        repo.pull({f"things/pack{count}.py": BAD_CODE}, branch=f"changes-{count}")["head"]["sha"]
        for count in range(3)
    ]
    sent = repo.admin.deliveries()
    lost = {d.guid for d in sent if d.status != "OK"}
    # Of each hundred exactly so many, evenly spread.
    assert abs(len(lost) - 0.3 * len(sent)) < 1
    done = recovered(product)
    assert {missed.guid for missed in done.asked} == lost
    assert (done.refused, done.given_up) == ([], [])

    def all_known() -> bool:
        with product.store.read() as tx:
            return recoveries.known_deliveries(tx, lost) == lost

    wait_for("the deliveries", lambda: all_known() or None, 30)
    assert recovered(product).asked == []
    with product.store.read() as tx:
        rows = [deliveries.find(tx, DeliveryId(d.guid)) for d in sent]
        searches = recoveries.recent(tx)
    assert all(row is not None and row.seen == 1 for row in rows)
    asked = [search.asked for search in searches if search.asked]
    assert asked == [len(lost)]
    for head in heads:
        assert repo.completed(head)["conclusion"] == "success"
        assert len(repo.runs(head)) == 1
    product.settle()
