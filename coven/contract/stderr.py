"""Deterministic failures of the real runtime, recognised on its stderr.

Its exit 2 also covers failures that another attempt can't cure, and the reason stands on stderr
alone. A session can print what it likes, so a hit may only stop a retry, never cause or excuse one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINES = 40
"""The cause is reported at the end; older lines are the session's own output."""

_LINE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Cause:
    """A recognised cause. ``text`` is for people, with the next step."""

    name: str
    text: str


TURN_LIMIT = Cause(
    "turn limit", "the turn limit was reached; narrow the request or raise `worker.max_turns`"
)
AUTHENTICATION = Cause(
    "authentication", "the model provider refused the credentials; check the provider key"
)
BAD_REQUEST = Cause(
    "request refused", "the model provider refused the request; check the model's name and limits"
)
BAD_FLAGS = Cause(
    "bad flags", "the runtime did not accept its flags; check `worker.profile` and its version"
)

_TURNS = re.compile(
    r"(?i)\bturn[ _-]?limit\b|\bmax(?:imum)?(?: number of)?[ _-]{0,2}turns?\b.{0,40}"
    r"(?:reached|exceeded|hit)|(?:reached|exceeded|hit).{0,40}\bmax(?:imum)?[ _-]{0,2}turns?\b"
)
_AUTH = re.compile(
    r"(?i)\bauthentication[ _](?:error|failed|required)|\bpermission_error\b|\bunauthori[sz]ed\b"
    r"|\binvalid (?:x-)?api[ -]key|\b(?:http|status|code|error)\W{0,3}(?:code\W{0,3})?40[13]\b"
    r"|\bexpired (?:credential|token|api key)"
)
# 408, 409, 425 and 429 pass by themselves.
_REFUSED = re.compile(
    r"(?i)\b(?:http|status|error)\W{0,3}(?:code\W{0,3})?4(?!0[89]|25|29)[0-9]{2}\b"
    r"|\binvalid_request_error\b|\bnot_found_error\b|\bmodel[_ ]not[_ ]found\b"
)
_FLAGS = re.compile(
    r"(?im)^(?:error: )?(?:unexpected argument|unrecognized (?:argument|subcommand|option)"
    r"|invalid value .{1,200} for |the following required arguments|the argument .{1,200} cannot be"
    r"|unknown (?:option|argument|flag)|a value is required for)|^usage: \S|try '--help'"
)
_ERROR_LINE = re.compile(r"(?i)\b(?:error|warn(?:ing)?|fatal|failed|limit)\b")


def classify(stderr_tail: str, *, without_result: bool) -> Cause | None:
    """The cause of an exit 2 that another attempt would meet again, if it shows.

    ``without_result``: only then may it have been the argument parser. A line that reports a tool
    call is the session's own and does not count.
    """
    lines = [line[:_LINE_CHARS] for line in stderr_tail.splitlines()[-_LINES:]]
    lines = [line for line in lines if not line.lstrip().startswith("[Tool")]
    if without_result and _FLAGS.search("\n".join(lines)):
        return BAD_FLAGS
    for line in reversed(lines):
        if not _ERROR_LINE.search(line):
            continue
        for pattern, cause in (
            (_TURNS, TURN_LIMIT),
            (_AUTH, AUTHENTICATION),
            (_REFUSED, BAD_REQUEST),
        ):
            if pattern.search(line):
                return cause
    return None
