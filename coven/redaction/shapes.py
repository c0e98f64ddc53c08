"""Secrets known by their shape: tokens of code hosts, clouds, model providers, chats, registries.

Every pattern costs linear time: it starts with a literal or behind a boundary, so that no two
attempts read the same long run, and its runs are possessive or bounded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from coven.redaction.spans import Span


@dataclass(frozen=True, slots=True)
class Shape:
    """One pattern. It is tried only where one of ``hints`` stands in the text."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    needs_digit: bool = False
    """For prefixes that are also words: ``sk-learn-…`` is a package, not a key."""


def _shape(hints: str, pattern: str, *, needs_digit: bool = False) -> Shape:
    return Shape(tuple(hints.split()), re.compile(pattern), needs_digit)


_BOUNDARY = r"(?<![A-Za-z0-9])"

_OWN = (
    _shape("cvn_", r"cvn_[0-9a-f]{12}_[0-9a-f]{40,}+"),
    # Installation tokens of today hold a JWT (dots, and '-' from base64url): the tail goes too.
    _shape("ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9_.\-]{20,}+"),
    _shape("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}+"),
    _shape("v1.", r"(?<![\w.])v1\.[0-9a-f]{40}(?![0-9a-f])"),
    # A JWT is known by its payload, which always starts with {" in base64url.
    _shape(
        ".eyJ", r"(?<![A-Za-z0-9_\-])[A-Za-z0-9_\-]{10,}+\.eyJ[A-Za-z0-9_\-]{6,}+(?:\.[\w\-]*+)?"
    ),
    _shape(
        "glpat- gldt- glft- glsoat- glrt- glcbt- glptt- glimt- glagent- gloas-",
        r"gl(?:pat|dt|ft|soat|rt|cbt|ptt|imt|agent|oas)-[A-Za-z0-9_.\-]{20,}+",
    ),
    _shape("xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,}+"),
    _shape("xapp-", r"xapp-[0-9]-[A-Za-z0-9\-]{20,}+"),
    _shape("hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/\-]{16,}+"),
    _shape("/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/[0-9]{10,25}/[\w\-]{20,}+"),
    _shape(".", r"(?<![\w\-])[MNO][A-Za-z0-9_\-]{22,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}+"),
    _shape(":", r"(?<!\w)[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}(?![\w\-])"),
    _shape("sk-", _BOUNDARY + r"sk-[A-Za-z0-9_\-]{20,}+", needs_digit=True),
    _shape("xai-", _BOUNDARY + r"xai-[A-Za-z0-9]{40,}+"),
    _shape("gsk_", _BOUNDARY + r"gsk_[A-Za-z0-9]{40,}+"),
    _shape("hf_", _BOUNDARY + r"hf_[A-Za-z0-9]{30,}+"),
    _shape("r8_", _BOUNDARY + r"r8_[A-Za-z0-9]{37,}+"),
    _shape("pplx-", _BOUNDARY + r"pplx-[A-Za-z0-9]{40,}+"),
    _shape("AIza", r"AIza[0-9A-Za-z_\-]{35}"),
    _shape("ya29.", _BOUNDARY + r"ya29\.[0-9A-Za-z_\-]{20,}+"),
    _shape("GOCSPX-", r"GOCSPX-[0-9A-Za-z_\-]{20,}+"),
    _shape("npm_", _BOUNDARY + r"npm_[A-Za-z0-9]{36,}+"),
    _shape("_authToken", r"_authToken\s{0,4}=\s{0,4}+[^\s\"'$\[\]]{8,}+"),
    _shape("pypi-", _BOUNDARY + r"pypi-[A-Za-z0-9_\-]{40,}+"),
    _shape("rubygems_", r"rubygems_[0-9a-f]{48}"),
    _shape("dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20,}+"),
    _shape("_v1_", r"do[op]r?_v1_[0-9a-f]{64}"),
    _shape("shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _shape("hvs. hvb.", _BOUNDARY + r"hv[sb]\.[A-Za-z0-9_\-]{24,}+"),
    _shape("glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("ATATT3", r"ATATT3[A-Za-z0-9_\-=]{40,}+"),
    _shape("lin_api_", r"lin_api_[A-Za-z0-9]{32,}+"),
    _shape("whsec_", r"whsec_[A-Za-z0-9+/=]{24,}+"),
    _shape("_live_ _test_", _BOUNDARY + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    _shape("tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9\-]{16,}+"),
    _shape("dapi", _BOUNDARY + r"dapi[0-9a-f]{32}(?![0-9a-f])"),
    _shape("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("key-", _BOUNDARY + r"key-[0-9a-z]{32}(?![0-9a-z])", needs_digit=True),
    _shape("sig=", r"[?&]sig=[A-Za-z0-9%+/=]{20,}+"),
    # base64 of "x-access-token:", as in the Basic header of a git client.
    _shape("eC1hY2Nlc3MtdG9rZW46", r"eC1hY2Nlc3MtdG9rZW46[A-Za-z0-9+/_\-]{4,}+={0,2}"),
)


@cache
def _known() -> tuple[Shape, ...]:
    """Our own shapes and those that detect-secrets keeps and that are linear.

    Not taken from there: GitHub (its 36 characters end before the tail of today's tokens), JWT and
    OpenAI (quadratic on a repeated prefix), GitLab and Slack (they stop at a dot or miss kinds),
    Artifactory and Mailchimp (they hit ordinary words and digests), Discord and Telegram (no
    boundary), keyword and entropy plugins (they work on files by line, and flag digests).
    """
    borrowed = (
        (("AKIA", "ASIA", "ABIA", "ACCA", "A3T"), AWSKeyDetector.denylist[0].pattern),
        (("AccountKey=",), AzureStorageKeyDetector.denylist[0].pattern),
        (("SG.",), SendGridDetector.denylist[0].pattern),
        (("sq0csp-",), SquareOAuthDetector.denylist[0].pattern),
        (("k_live_",), StripeDetector.denylist[0].pattern),
        *((("AC", "SK"), rf"{each.pattern}(?!\w)") for each in TwilioKeyDetector.denylist),
    )
    return (
        *_OWN,
        *(Shape(hints, re.compile(rf"{_BOUNDARY}{one}[A-Za-z0-9]*+")) for hints, one in borrowed),
    )


_ENCODED_PREFIX = re.compile(r"(?:Z2h[pvy1z]X|Z2l0aHViX3BhdF)[A-Za-z0-9+/_\-]{20,}+={0,2}")
_ENCODED_HINTS = ("Z2hpX", "Z2hvX", "Z2hyX", "Z2h1X", "Z2hzX", "Z2hwX", "Z2l0aHViX3BhdF")
_DECODED_TOKEN = re.compile(rb"(?:gh[pousr]|github_pat)_[A-Za-z0-9_.\-]{14}")
_BASIC = re.compile(r"(?i:\bbasic)[ \t]{1,4}+([A-Za-z0-9+/_\-]{8,}+={0,2})")
_DIGIT = re.compile("[0-9]")


def find_shapes(text: str) -> Iterator[Span]:
    """Spans of everything that has the shape of a secret."""
    for shape in _known():
        if not any(hint in text for hint in shape.hints):
            continue
        for match in shape.pattern.finditer(text):
            if not shape.needs_digit or _DIGIT.search(text, *match.span()):
                yield match.start(), _without_full_stop(text, match.end())
    yield from _encoded(text)


def _without_full_stop(text: str, end: int) -> int:
    return end - 1 if text[end - 1] == "." else end


def _encoded(text: str) -> Iterator[Span]:
    if any(hint in text for hint in _ENCODED_HINTS):
        for match in _ENCODED_PREFIX.finditer(text):
            if _DECODED_TOKEN.match(_decoded(match[0][:64])):
                yield match.span()
    for match in _BASIC.finditer(text) if "asic" in text or "ASIC" in text else ():
        start = _decoded(match[1][:64])
        if b":" in _decoded(match[1]) and start[:4].isascii() and start[:4].decode().isprintable():
            yield match.span(1)


def _decoded(encoded: str) -> bytes:
    plain = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(
            plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4 % 3)
        )
    except (binascii.Error, ValueError):
        return b""
