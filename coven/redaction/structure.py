"""Secrets known by where they stand: userinfo of URLs, headers, key=value pairs, PEM blocks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from coven.redaction.spans import MASK, Span

PEM_SPAN = 65_536
"""Longest distance, in characters, between the two marker lines of one key."""

_URL = re.compile(r"://((?:(?!://)[^\s\"'<>`\[\]|\\])++)")
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|\Z)")
_AUTHORITY_END = re.compile(r"[/?#]")
_VARIABLE = re.compile(r"\$?\{+[^{}]*\}+|\$[A-Z_][A-Z0-9_]*|%[A-Z_]+%|\*+|x+|X+|\.+")
_PLACEHOLDER = re.compile(_VARIABLE.pattern + r"|(?i:your|example|changeme|placeholder)[\w.\-]*")
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[a-z0-9_.\-]{1,40})+")

_SEPARATOR = r"(?:\\{0,3}[\"'])?[ \t]{0,4}+(?:=>|:=|[:=])[ \t]{0,4}+"
_HEADER = re.compile(
    r"(?i)authorization" + _SEPARATOR + r"[\"']?"
    r"(?:(?P<scheme>bearer|basic|token|apikey|negotiate)[ \t]{1,4}+"
    r"(?P<value>[^\s\"'`|,;<>\[\]\\]++)"
    r"|(?P<rest>(?:digest|aws4-hmac-sha256|hawk|oauth)[ \t][^\r\n\[\]<>`|]++)"
    r"|(?P<bare>[^\s\"'`|,;<>(){}\[\]\\]{16,}+))"
)
_KEY_HEADER = re.compile(
    r"(?i)(?:x-api-key|x-auth-token|x-access-token|x-goog-api-key|private-token|x-vault-token"
    r"|x-github-token|x-amz-security-token|job-token)"
    r"[\"']?[ \t]{0,4}+[:=][ \t]{0,4}+[\"']?(?P<value>[^\s\"'`|,;<>\[\]\\@]++)"
)
_COOKIE = re.compile(
    r"(?i)cookie[\"']?[ \t]{0,4}+[:=][ \t]{0,4}+[\"']?(?P<value>[\w.\-]{1,64}=[^\r\n\"'\[\]<>`|]++)"
)
_BEARER = re.compile(r"(?i)\bbearer[ \t]{1,4}+(?P<value>[A-Za-z0-9_.~+/\-]{16,}+=*+)")
_WORDS = frozenset(
    {
        "a",
        "an",
        "and",
        "as",
        "auth",
        "authentication",
        "authorization",
        "based",
        "basic",
        "bearer",
        "false",
        "for",
        "format",
        "header",
        "headers",
        "in",
        "is",
        "must",
        "nil",
        "none",
        "not",
        "null",
        "of",
        "optional",
        "or",
        "required",
        "scheme",
        "secret",
        "string",
        "the",
        "to",
        "token",
        "tokens",
        "true",
        "type",
        "undefined",
        "value",
        "values",
        "with",
    }
)

_PAIR = re.compile(
    r"(?i)(?:(?P<flag>--(?:password|passwd|token|secret|api-?key))[ =]{1,2}+"
    r"|(?P<name>passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|secret[_-]?key|encryption[_-]?key|signing[_-]?key|credentials?)"
    r"(?P<separator>" + _SEPARATOR + r"))"
    r"(?:\\{0,3}(?P<quote>[\"'])(?P<quoted>[^\"'\r\n\[\]\\]{6,4096}+)|"
    r"(?P<bare>(?![=:])[^\s\"'`,;&|<>(){}\[\]\\]{6,}+))"
)
_PAIR_HINTS = ("pass", "pwd", "secret", "token", "key", "credential")
_NAME = r"[A-Za-z_]++(?:[0-9]{1,3}[A-Za-z_]*+)?"
_CODE = re.compile(rf"{_NAME}(?:[.:/\-]{_NAME})*+[.:?!]?")

_BEGIN = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{0,5}|PuTTY-User-Key-File-[0-9]"
)
_END = re.compile(
    r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{0,5}|Private-MAC: ?[0-9a-f]*+"
)
_KEY_BODY = re.compile(r"[A-Za-z0-9+/]{24}")
_KEY_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\"', \t\r\n"
_ORPHAN_WINDOW = 8_192


def find_structures(text: str) -> Iterator[Span]:
    """Spans of everything that stands where a secret stands."""
    userinfo = list(_userinfo(text)) if "://" in text else []
    yield from userinfo
    lowered = text.lower()
    yield from _headers(text, lowered)
    if any(hint in lowered for hint in _PAIR_HINTS):
        starts = [start for start, _ in userinfo]
        for start, end in _pairs(text):
            # In "https://x-access-token:…@host/path" the value ends at the '@', not at the path.
            at = bisect_right(starts, start) - 1
            if at < 0 or start >= userinfo[at][1]:
                yield start, end
    if "PRIVATE KEY" in text or "PuTTY-User-Key" in text or "Private-MAC" in text:
        yield from find_keys(text)


def _userinfo(text: str) -> Iterator[Span]:
    for match in _URL.finditer(text):
        run, start = match[1], match.start(1)
        at = run.find("@")
        if at <= 0:
            continue
        stop = _AUTHORITY_END.search(run)
        if stop is None or stop.start() > at:
            # A password may hold an '@' of its own: the last one before the path counts.
            at = run.rfind("@", 0, stop.start() if stop else len(run))
        user, colon, password = run[:at].partition(":")
        if _AUTHORITY_END.search(user) or _VARIABLE.fullmatch(password):
            continue
        if colon and password and not _PORT.match(run[len(user) + 1 :]):
            yield start, start + at
        elif not colon and len(user) >= 16 and any(char.isdigit() for char in user):
            # A token alone is a common form for git remotes.
            yield start, start + at


def _headers(text: str, lowered: str) -> Iterator[Span]:
    for match in _HEADER.finditer(text) if "authorization" in lowered else ():
        if match["rest"] is not None:
            yield match.span("rest")
        elif match["bare"] is not None:
            if not _CODE.fullmatch(match["bare"]):
                yield match.span("bare")
        elif _is_header_value(match["value"]):
            yield match.span("value")
    for match in _KEY_HEADER.finditer(text) if "-token" in lowered or "-key" in lowered else ():
        if _is_header_value(match["value"]):
            yield match.span("value")
    for match in _COOKIE.finditer(text) if "cookie" in lowered else ():
        yield match.span("value")
    for match in _BEARER.finditer(text) if "bearer" in lowered else ():
        if any(char.isdigit() for char in match["value"]):
            yield match.span("value")


def _is_header_value(value: str) -> bool:
    """Not a word of a sentence about headers, and not a variable."""
    return value.rstrip(".:)").lower() not in _WORDS and not _VARIABLE.fullmatch(value)


def _pairs(text: str) -> Iterator[Span]:
    for match in _PAIR.finditer(text):
        quoted = match["quoted"]
        if quoted is not None:
            if _quoted_secret(quoted):
                yield match.span("quoted")
        else:
            tight = match["flag"] is not None or match["separator"] in ("=", ":")
            # A bracket after it makes it a call or a subscript: code, not a value.
            called = text[match.end() : match.end() + 1] in ("(", "[")
            named_as_env = match["name"] is not None and match["name"].isupper()
            if not called and _bare_secret(match["bare"], tight=tight, env=named_as_env):
                yield match.span("bare")


def _quoted_secret(value: str) -> bool:
    if " " in value or _PLACEHOLDER.fullmatch(value):
        return False
    if _has_digit(value):
        return len(value) >= 8 or _has_letter(value)
    return _has_letter(value) and any(char in "!#%^*+=?~" for char in value)


def _bare_secret(value: str, *, tight: bool, env: bool) -> bool:
    """``tight``: without spaces at the sign, as in flags, not as in most code; ``env``: NAME=."""
    if _PLACEHOLDER.fullmatch(value) or _PATH.fullmatch(value) or not _has_letter(value):
        return False
    if not _has_digit(value):
        return tight and any(char in "!#$%^~" for char in value)
    if _CODE.fullmatch(value):
        looks_like_a_name = "_" in value or "." in value or len(value) < 8
        return tight and (env or not looks_like_a_name)
    return tight or len(value) >= 8


def _has_digit(value: str) -> bool:
    return any(char.isdigit() for char in value)


def _has_letter(value: str) -> bool:
    return any(char.isalpha() for char in value)


def find_keys(text: str) -> Iterator[Span]:
    """Private key blocks: whole ones, those whose end is cut off, those whose start is."""
    ends = [match.span() for match in _END.finditer(text)]
    body = _KEY_BODY.search(text)
    position = 0
    for begin in _BEGIN.finditer(text):
        if body is not None and body.start() < begin.end():
            body = _KEY_BODY.search(text, begin.end())
        if begin.start() < position:
            continue
        at = bisect_left(ends, (begin.end(), 0))
        if at < len(ends) and ends[at][0] - begin.end() <= PEM_SPAN:
            position = ends[at][1]
            yield begin.start(), position
        elif MASK not in text[begin.end() : begin.end() + 64] and _is_open(text, begin.end(), body):
            yield begin.start(), len(text)
            return
    position = 0
    for start, end in ends:
        low = max(position, start - _ORPHAN_WINDOW)
        before = text[low:start]
        kept = len(before.rstrip(_KEY_CHARS))
        if _KEY_BODY.search(before, kept):
            yield low + kept, end
        position = end


def _is_open(text: str, start: int, body: re.Match[str] | None) -> bool:
    """Whether key material follows soon, or the text ends too soon to tell."""
    return len(text) - start < 64 or (body is not None and body.start() - start < 400)
