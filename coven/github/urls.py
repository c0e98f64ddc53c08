"""Where the API of a GitHub is, and how a path on it is spelled."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

_LOCAL = {"127.0.0.1", "localhost", "::1"}


def api_root(base_url: str) -> str:
    """The API root for a configured base URL, without a trailing slash.

    ``https://HOST`` of an Enterprise Server becomes ``https://HOST/api/v3``; ``github.com`` and
    ``SUB.ghe.com`` become their ``api.`` hosts. A local address, an ``api.`` host and a URL with
    a path are taken as they are.
    """
    base = base_url.strip().rstrip("/")
    parts = urlsplit(base)
    host = (parts.hostname or "").casefold()
    if parts.path or host in _LOCAL or host.startswith("api."):
        return base
    if host == "github.com" or host == "www.github.com":
        return "https://api.github.com"
    if host.endswith(".ghe.com"):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{base}/api/v3"


def path(*segments: str | int) -> str:
    """An absolute path; every segment is percent-encoded whole, slashes and ``[bot]`` too.

    Raises ``ValueError`` for an empty segment and for ``.`` and ``..``, which would name a
    different resource.
    """
    for segment in segments:
        if str(segment) in {"", ".", ".."}:
            raise ValueError(f"not usable in an API path: {segment!r}")
    return "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


def next_query(link_header: str | None) -> dict[str, str] | None:
    """The query of the ``next`` page in a ``Link`` header; None on the last page.

    Only the query is used: host and path stay ours, whatever a proxy wrote in between.
    """
    for part in (link_header or "").split(","):
        target, _, attributes = part.partition(";")
        if 'rel="next"' not in attributes.replace(" ", "").replace("rel=next", 'rel="next"'):
            continue
        query = urlsplit(target.strip().strip("<>")).query
        return {name: values[-1] for name, values in parse_qs(query).items()}
    return None
