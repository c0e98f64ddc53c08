"""From GitHub's answer to our error: one table, no I/O.

Order matters: rate limits are recognised before permissions, because GitHub answers both with 403
and now and then even with the same message. See "Rate limits for the REST API" and
"Troubleshooting the REST API" in GitHub's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from coven.errors import (
    GitHubError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubRejected,
    GitHubUnauthorised,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
)

SECONDARY_FLOOR_SECS = 60.0
"""Least wait when GitHub does not say how long (its own rule for secondary limits)."""
LONGEST_WAIT_SECS = 86_400.0
SKEW_SECS = 30.0
_TEXT_LIMIT = 300
_SECRETS = re.compile(
    r"gh[pousr]_[A-Za-z0-9_.\-]{10,}|github_pat_[A-Za-z0-9_]{10,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*){1,2}|(?i:bearer|token)\s+[A-Za-z0-9_.\-]{20,}"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and what it was for."""

    operation: str
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    message: str
    """``message`` and ``errors`` of the body, bounded and without secrets."""
    now: datetime
    app_auth: bool = False
    """The request was signed with the App's JWT."""
    minting: bool = False
    """The request asked for an installation token."""


def scrub(text: str, live: tuple[str, ...] = ()) -> str:
    """``text`` on one line, without tokens, cut to a few hundred characters."""
    for value in live:
        if value:
            text = text.replace(value, "[redacted]")
    text = " ".join(_SECRETS.sub("[redacted]", text).split())
    text = "".join(c for c in text if c.isprintable())
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"


def message_of(body: object, live: tuple[str, ...] = ()) -> str:
    """GitHub's own words in an error body: ``message``, then the entries of ``errors``."""
    if isinstance(body, str):
        return scrub(body, live)
    if not isinstance(body, dict):
        return ""
    parts = [str(body.get("message") or "")]
    errors = body.get("errors")
    for entry in errors[:5] if isinstance(errors, list) else [errors] if errors else []:
        parts.append(_entry(entry))
    return scrub("; ".join(part for part in parts if part), live)


def _entry(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    where = ".".join(str(entry[key]) for key in ("resource", "field") if entry.get(key))
    what = str(entry.get("message") or entry.get("code") or "")
    return f"{where} {what}".strip()


def failure(answer: Answer) -> GitHubError:
    """The error that this answer means; every status of 300 and above has one."""
    return next(build(answer) for applies, build in _TABLE if applies(answer))


def skew_secs(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds by which this machine's clock is ahead of GitHub's; None when it can't be known."""
    date = _http_date(headers.get("date"))
    return (now - date).total_seconds() if date is not None else None


def wait_secs(headers: Mapping[str, str], now: datetime) -> float:
    """How long a rate-limited caller waits: never 0, never more than a day."""
    asked = _retry_after(headers, now)
    if asked is None and headers.get("x-ratelimit-remaining", "").strip() == "0":
        asked = _until_reset(headers, now)
    if asked is None:
        asked = SECONDARY_FLOOR_SECS
    return min(max(asked, 1.0), LONGEST_WAIT_SECS)


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value, re.ASCII):
        return float(value)
    date = _http_date(value)
    if date is None:
        return None
    wait = (date - (_http_date(headers.get("date")) or now)).total_seconds()
    return wait if wait > 0 else None


def _until_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    value = headers.get("x-ratelimit-reset", "").strip()
    if not re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value, re.ASCII):
        return None
    # Both ends by GitHub's clock, so that ours may be wrong. A reset in the past says nothing.
    wait = float(value) - (_http_date(headers.get("date")) or now).timestamp()
    return wait + 1 if wait > 0 else None


def _http_date(value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def _text(answer: Answer, note: str = "") -> str:
    said = f": {answer.message}" if answer.message else ""
    return f"github.{answer.operation}: {answer.status}{said}{f' ({note})' if note else ''}"


def _says(answer: Answer, *phrases: str) -> bool:
    message = answer.message.casefold()
    return any(phrase in message for phrase in phrases)


def _is_rate_limit(answer: Answer) -> bool:
    if answer.status == 429:
        return True
    if answer.status != 403:
        return False
    return (
        "retry-after" in answer.headers
        or answer.headers.get("x-ratelimit-remaining", "").strip() == "0"
        or _says(answer, "rate limit", "abuse detection", "please retry your request again later")
    )


def _rate_limited(answer: Answer) -> GitHubError:
    wait = wait_secs(answer.headers, answer.now)
    return RateLimited(_text(answer, f"wait {wait:.0f} s"), status=answer.status, retry_after=wait)


def _unauthorised(answer: Answer) -> GitHubError:
    note = ""
    if answer.app_auth:
        note = "check github.app_id or github.client_id and github.private_key"
        skew = skew_secs(answer.headers, answer.now)
        if skew is not None and abs(skew) > SKEW_SECS:
            way = "ahead of" if skew > 0 else "behind"
            note = f"this machine's clock is {abs(skew):.0f} s {way} GitHub's; set it right"
    return GitHubUnauthorised(_text(answer, note), status=answer.status)


def _forbidden(answer: Answer) -> GitHubError:
    public = None
    needed = scrub(answer.headers.get("x-accepted-github-permissions", ""))
    note = f"needs {needed}" if needed else ""
    if _says(answer, "archived"):
        public = "The repository is archived, so nothing can be written to it."
    elif _says(answer, "ip allow list"):
        public = (
            "An IP allow list keeps this App out. An owner can add the App's address under the "
            "organisation's security settings."
        )
    return GitHubForbidden(_text(answer, note), status=answer.status, public=public)


def _legal(answer: Answer) -> GitHubError:
    return GitHubForbidden(
        _text(answer),
        status=answer.status,
        public="GitHub blocks this repository for legal reasons.",
    )


def _unavailable(answer: Answer) -> GitHubError:
    wait = _retry_after(answer.headers, answer.now)
    return GitHubUnavailable(
        _text(answer),
        status=answer.status,
        retry_after=None if wait is None else min(max(wait, 1.0), LONGEST_WAIT_SECS),
    )


def _simple(kind: type[GitHubError], note: str = "") -> Callable[[Answer], GitHubError]:
    return lambda answer: kind(_text(answer, note), status=answer.status)


def _status(*codes: int) -> Callable[[Answer], bool]:
    return lambda answer: answer.status in codes


_TABLE: tuple[tuple[Callable[[Answer], bool], Callable[[Answer], GitHubError]], ...] = (
    (_is_rate_limit, _rate_limited),
    (_status(401), _unauthorised),
    (
        lambda a: a.status == 403 and _says(a, "suspended"),
        _simple(InstallationGone, "the installation is suspended"),
    ),
    (_status(403), _forbidden),
    (
        lambda a: a.minting and a.status in {404, 410},
        _simple(InstallationGone, "the App is not installed there any more"),
    ),
    (
        lambda a: a.minting and a.status == 422 and _says(a, "repositor", "not accessible"),
        _simple(InstallationGone, "the installation does not include this repository any more"),
    ),
    (lambda a: a.minting and a.status == 422, _forbidden),
    (_status(404, 410), _simple(GitHubNotFound)),
    (_status(451), _legal),
    (_status(408), _unavailable),
    (lambda a: a.status >= 500, _unavailable),
    (lambda a: 300 <= a.status < 400, _simple(GitHubRejected, "an unexpected redirection")),
    (lambda _: True, _simple(GitHubRejected)),
)
