"""Whether a request that changes something came from our own page. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

HOME = "/ops/"
_PATH = re.compile(r"/ops/[!-\[\]-~]*\Z", re.ASCII)


def is_own(headers: Mapping[str, str], host: str, public_url: str | None) -> bool:
    """Whether browser and headers agree that the form was ours.

    Every browser of today sends ``Origin`` with a POST; one without is refused too.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("Origin")
    if not origin:
        return False
    try:
        sent = urlsplit(origin)
    except ValueError:  # no address at all
        return False
    own = {("http", host), ("https", host)}
    if public_url:
        public = urlsplit(public_url)
        own.add((public.scheme, public.netloc))
    return (sent.scheme, sent.netloc) in own


def after_login(wanted: str | None) -> str:
    """Where to go: a path of ours, whatever was asked for."""
    if wanted and len(wanted) <= 500 and _PATH.match(wanted) and "//" not in wanted:
        return wanted
    return HOME
