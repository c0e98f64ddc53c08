"""The HTTP API under ``/api/github``.

``operations`` is the one table of what there is; routes, checks and the OpenAPI document all come
from it. Only ``blueprint`` knows Flask.
"""
