"""How gunicorn runs the receiver: ``gunicorn --config python:webhooks.gunicorn_conf``.

Bind, workers and threads come as arguments from ``server.bind``, ``server.web_workers`` and
``server.web_threads``; arguments win over what stands here.

Threads, because a request waits for a disk and at most once, briefly, for GitHub. A slow client
holds one thread, and not for long (:mod:`webhooks.slow_clients`). The application is loaded after
the fork, so that pools and database connections belong to the process that uses them.
"""

from __future__ import annotations

worker_class = "webhooks.slow_clients.Worker"
preload_app = False

# GitHub hangs up after 10 s (30 s on GitHub Enterprise Server); a worker that is silent for
# longer than that is stuck.
timeout = 40
graceful_timeout = 15
keepalive = 5

# Webhook requests have a short line and few headers.
limit_request_line = 2_048
limit_request_fields = 60
limit_request_field_size = 8_190
