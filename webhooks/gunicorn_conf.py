"""How gunicorn runs the receiver: ``gunicorn --config python:webhooks.gunicorn_conf``.

Bind, workers and threads come as arguments from ``server.bind``, ``server.web_workers`` and
``server.web_threads``, the log's class from :mod:`coven.cli.processes`; arguments win over what
stands here, so nothing stands in both places.

Threads, because a request waits for a disk and at most once, briefly, for GitHub. A slow client
holds one thread, and not for long (:mod:`webhooks.slow_clients`). The application is loaded after
the fork, so that pools and database connections belong to the process that uses them.
"""

from __future__ import annotations

from coven.settings.defaults import WEB_GRACE_SECS

worker_class = "webhooks.slow_clients.Worker"
preload_app = False
# Nobody steers a running receiver; releases that know no such socket ignore this.
control_socket_disable = True

# GitHub hangs up after 10 s (30 s on GitHub Enterprise Server); a worker that is silent for
# longer than that is stuck.
timeout = 40
graceful_timeout = WEB_GRACE_SECS
keepalive = 5

# Webhook requests have a short line and few headers.
limit_request_line = 2_048
limit_request_fields = 60
limit_request_field_size = 8_190
