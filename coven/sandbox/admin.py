"""The admin API under ``/_sandbox/``: what people do on GitHub, and switches for tests.

Every action is ``POST /_sandbox/<action>`` with a JSON object. An action that is an event on GitHub
also takes ``deliver``: ``true`` sends the webhook and waits for the receiver, ``"lost"`` records a
delivery that never arrived, ``"form"`` sends it form-encoded, false (the default) sends nothing.
The answer is ``{"result": …, "deliveries": [...]}``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, request

from coven.sandbox import actions_repos, actions_threads, actions_world, dump
from coven.sandbox.answers import Answer, ApiError
from coven.sandbox.deliveries import Deliverer, Sent
from coven.sandbox.hub import Hub
from coven.sandbox.outcome import Outcome

Action = Callable[..., Any]

ACTIONS: dict[str, Action] = {
    **actions_world.ACTIONS,
    **actions_repos.ACTIONS,
    **actions_threads.ACTIONS,
}


def sent_json(sent: Sent) -> dict[str, Any]:
    """A delivery as the admin API shows it."""
    return {
        "id": sent.id,
        "guid": sent.guid,
        "event": sent.event,
        "action": sent.action,
        "status": sent.status,
        "status_code": sent.status_code,
        "seconds": sent.duration,
        "redelivery": sent.redelivery,
        "response": sent.response,
    }


class AdminApi:
    """Maps requests to actions."""

    def __init__(self, hub: Hub, deliverer: Deliverer) -> None:
        self.hub = hub
        self.deliverer = deliverer

    def register(self, flask: Flask) -> None:
        """Add the admin routes."""
        flask.add_url_rule("/_sandbox/<action>", "admin", self.act, methods=["POST"])
        flask.add_url_rule("/_sandbox/state", "state", self.state)
        flask.add_url_rule("/_sandbox/requests", "requests", self.requests)
        flask.add_url_rule("/_sandbox/deliveries", "deliveries", self.deliveries)
        flask.add_url_rule("/_sandbox/faults", "faults", self.faults)
        flask.add_url_rule("/_sandbox/health", "health", self.health)

    def act(self, action: str) -> Response:
        """Run one action."""
        try:
            return self._answer(self._act(action))
        except ApiError as error:
            return self._answer(error.answer())

    def _act(self, action: str) -> Answer:
        function = ACTIONS.get(action)
        if function is None:
            raise ApiError(404, f"There is no sandbox action {action!r}.")
        body = request.get_json(force=True, silent=True)
        if not isinstance(body, dict):
            raise ApiError(400, "Send a JSON object.")
        deliver = body.pop("deliver", False)
        try:
            inspect.signature(function).bind(self.hub, **body)
        except TypeError as error:
            raise ApiError(400, f"{action}: {error}") from error
        with self.hub.state.lock:
            try:
                done = function(self.hub, **body)
            except ValueError as error:
                raise ApiError(400, f"{action}: {error}") from error
        if isinstance(done, Sent):
            return Answer({"result": sent_json(self.deliverer.send(done)), "deliveries": []})
        if not isinstance(done, Outcome):
            return Answer({"result": done, "deliveries": []})
        sent = [self._deliver(event, payload, deliver) for event, payload in done.events if deliver]
        return Answer({"result": done.result, "deliveries": [sent_json(one) for one in sent]})

    def _deliver(self, event: str, payload: Any, how: Any) -> Sent:
        delivery = self.deliverer.prepare(event, payload, form=how == "form")
        return self.deliverer.lose(delivery) if how == "lost" else self.deliverer.send(delivery)

    def state(self) -> Response:
        """Everything as JSON, or with ``?repo=owner/name`` that repository only."""
        name = request.args.get("repo")
        try:
            with self.hub.state.lock:
                if name is None:
                    return self._answer(Answer(dump.dump_state(self.hub)))
                return self._answer(Answer(dump.repo_dump(self.hub, self.hub.repo(name))))
        except ApiError as error:
            return self._answer(error.answer())

    def requests(self) -> Response:
        """The request log; ``?since=N`` leaves out the first N."""
        since = request.args.get("since", "0")
        if not since.isdigit():
            return self._answer(ApiError(400, "since is a number").answer())
        entries, counts = self.hub.log.listed(int(since)), self.hub.log.counts()
        return self._answer(Answer({"requests": entries, "counts": counts}))

    def deliveries(self) -> Response:
        """Every attempt to deliver, oldest first."""
        return self._answer(Answer([sent_json(one) for one in self.deliverer.listed()]))

    def faults(self) -> Response:
        """Fault switches with their counts."""
        return self._answer(Answer(self.hub.faults.listed()))

    def health(self) -> Response:
        """Up."""
        return self._answer(Answer({"ok": True, "app_id": self.hub.app.id}))

    def _answer(self, answer: Answer) -> Response:
        text = json.dumps(answer.data, ensure_ascii=False)
        return Response(text, answer.status, content_type="application/json; charset=utf-8")
