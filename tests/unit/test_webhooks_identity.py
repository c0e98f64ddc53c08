"""Who we are is learned beside the deliveries, and never waited for."""

from __future__ import annotations

import threading

from coven.errors import GitHubUnavailable
from coven.github.models import AppInfo
from webhooks.identity import Identity


class Source:
    def __init__(self, answers: list[AppInfo | Exception]) -> None:
        self.answers = answers
        self.asked = 0
        self.answered = threading.Event()
        self.go = threading.Event()

    def app_info(self) -> AppInfo:
        self.asked += 1
        assert self.go.wait(10)
        answer = self.answers.pop(0)
        self.answered.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def settled(identity: Identity) -> None:
    for thread in threading.enumerate():
        if thread.name == "app-identity":
            thread.join(10)


def test_the_id_is_none_until_github_has_answered() -> None:
    source = Source([AppInfo(1, "cody", "cody[bot]", 9001)])
    identity = Identity(source)
    assert [identity.id, identity.id] == [None, None]
    source.go.set()
    settled(identity)
    assert [identity.id, identity.id] == [9001, 9001]
    assert source.asked == 1


def test_who_got_no_answer_asks_again_but_not_at_once() -> None:
    source = Source([GitHubUnavailable("502", status=502), AppInfo(1, "cody", "cody[bot]", 7)])
    source.go.set()
    identity = Identity(source)
    for _ in range(Identity.ASK_AGAIN):
        assert identity.id is None
        settled(identity)
    assert source.asked == 1
    assert identity.id in (None, 7)  # this reading asks again, and does not wait
    settled(identity)
    assert identity.id == 7
