"""The dashboard under ``/ops/``: pages for operators, maintainers and viewers.

Rendered here, with one vendored script (htmx) for what refreshes by itself. Pages ask the same
functions as the HTTP API, so what may be seen and done is decided in one place.
"""
