"""Templates to bytes. Every text is escaped, and what hides in it is made visible.

Texts come from people, programs and models that may be hostile, so both happen to everything that
a template prints, whether its author thought of it or not.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from coven.visible import is_hidden, with_visible

STATIC = Path(__file__).parent / "static"
MAX_TEXT = 20_000
"""Longest single text of a page, in characters."""


class Renderer:
    """Renders pages. Made once per process; safe for threads."""

    def __init__(self, html_base_url: str) -> None:
        self._github = urlsplit(html_base_url)
        self._assets = {path.name: _asset(path) for path in STATIC.iterdir()}
        self._env = Environment(
            loader=PackageLoader("webhooks.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=printed,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.globals |= {"asset": self._assets.__getitem__, "url": url}
        self._env.filters |= {
            "when": when,
            "took": took,
            "github": self._github_link,
            "pretty": pretty,
            "size": size,
            "reveal": reveal,
        }

    def page(self, template: str, **context: Any) -> bytes:
        """A rendered template."""
        text = self._env.get_template(template).render(context)
        return text.encode("utf-8", "replace")

    def _github_link(self, address: str | None, words: str = "on GitHub") -> Markup:
        """A link to our GitHub; an address of anywhere else is only shown."""
        if not address:
            return Markup("")
        parts = urlsplit(address)
        if (parts.scheme, parts.netloc) != (self._github.scheme, self._github.netloc):
            return escape(printed(address))
        return Markup('<a class="out" href="{}" rel="noreferrer">{}</a>').format(address, words)


def printed(value: object) -> object:
    """What a template prints for a value: bounded, nothing for None, and nothing hides in it."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        cut = value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + " … (cut)"
        return with_visible(cut)[0]
    return value


def url(*segments: object, **query: object) -> str:
    """An address below ``/ops``; empty parameters are left out."""
    path = "/".join(quote(str(each), safe="") for each in segments)
    asked = {name: value for name, value in query.items() if value not in (None, "")}
    return f"/ops/{path}" + (f"?{urlencode(asked)}" if asked else "")


def reveal(text: str) -> Markup:
    """A text whose hidden characters stand out as marks with their code."""
    parts: list[Markup] = []
    plain = ""
    for char in text[:MAX_TEXT]:
        if char == "\r" or not is_hidden(char):
            plain += char
            continue
        mark = Markup('<mark title="a character that shows nothing">U+{:04X}</mark>')
        parts += [escape(plain), mark.format(ord(char))]
        plain = ""
    return Markup("").join([*parts, escape(plain)])


def when(at: datetime | None, now: datetime | None = None) -> Markup:
    """A moment: how long ago or ahead where ``now`` is given, and the time itself on hover."""
    if at is None:
        return Markup('<span class="none">–</span>')
    exact = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    text = at.strftime("%Y-%m-%d %H:%M")
    if now is not None:
        away = (now - at).total_seconds()
        text = f"{took(away)} ago" if away >= 0 else f"in {took(-away)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), exact, text)


def took(seconds: float | None) -> str:
    """A duration in its two largest units."""
    if seconds is None:
        return "–"
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def size(number: int | None) -> str:
    """A count with thin separators."""
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def pretty(value: object) -> str:
    """Plain data as indented JSON; what is no plain data as its text."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(value)


def _asset(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return f"/ops/static/{path.name}?v={digest}"
