"""Host names and addresses in one spelling, and URLs read as every client reads them. Pure.

Where two readers could disagree (user names in a URL, backslashes, percent signs in a host), the
text is refused rather than guessed at.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from coven.governance.actions import MalformedAction
from coven.governance.globs import Glob, wildcard

HOST_CHARS = 253
LABEL_CHARS = 63
RAW_CHARS = 1024

DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "ws": 80, "wss": 443, "ftp": 21}

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?P<host>\[[^\[\]\s/?#@\\]+\]|[^\[\]\s/?#@:\\]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[^?#]*)?(?:\?[^#]*)?(?:#.*)?",
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_PIECE = re.compile(r"[a-z0-9_*-]+")

_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Addresses that look public and serve secrets to the machine itself."""

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "metadata.google.internal")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostRefused(ValueError):
    """This can't be one host; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL dials; ``port`` is ``None`` when the URL does not name it."""

    scheme: str
    host: str
    port: int | None
    path: str


def split_url(url: str) -> Target:
    """The parts of an absolute URL. Raises ``MalformedAction`` for one that readers split apart."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise MalformedAction("url", "names a user; leave the part before `@` out")
    if _CONTROL.search(url):
        raise MalformedAction("url", "holds a blank, a control byte or a backslash; encode it")
    found = _URL.fullmatch(url)
    if not found:
        raise MalformedAction("url", "is not an absolute URL; send `scheme://host/path`")
    port = int(found["port"]) if found["port"] else None
    if port is not None and port > 65535:
        raise MalformedAction("url", "has a port above 65535; use a valid port")
    return Target(found["scheme"].lower(), found["host"], port, found["path"] or "/")


def canonical_host(raw: str) -> str:
    """The one spelling of a host: A-labels in lower case, or an address. Raises ``HostRefused``."""
    if len(raw) > RAW_CHARS:
        raise HostRefused("the host is too long")
    if raw.startswith("[") and raw.endswith("]"):
        return _six(raw[1:-1])
    if ":" in raw:
        return _six(raw)
    name = _ascii(raw)
    name = name.removesuffix(".")
    four = _four(name)
    if four is not None:
        return str(four)
    _require_labels(name, _LABEL)
    return name


def host_address(host: str) -> _Address | None:
    """The address that a canonical host is; ``None`` for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_private(address: str) -> bool:
    """Whether an address is loopback, link-local, private, metadata or otherwise not public."""
    return any(_not_public(ip) for ip in _embedded(ipaddress.ip_address(address.partition("%")[0])))


def is_local_name(host: str) -> bool:
    """Whether a canonical name means this machine or its metadata service by itself."""
    return host in _LOCAL_NAMES or host.endswith(".localhost")


@dataclass(frozen=True, slots=True)
class HostSet:
    """Hosts and patterns in which ``*`` spans dots. ``*.a.b`` never means ``a.b``."""

    literal: frozenset[str]
    of_names: tuple[Glob, ...]
    of_addresses: tuple[Glob, ...]

    @classmethod
    def read(cls, texts: Iterable[str], *, allowing: bool = False) -> HostSet:
        """``allowing``: an allow-list, whose patterns may not end in ``*``.

        Raises ``HostRefused``.
        """
        texts = tuple(texts)
        literal = frozenset(canonical_host(text) for text in texts if "*" not in text)
        patterns = [_pattern(text, allowing=allowing) for text in texts if "*" in text]
        return cls(
            literal,
            tuple(wildcard(text) for text in patterns),
            tuple(wildcard(text) for text in patterns if _numeric(text)),
        )

    def has(self, host: str) -> bool:
        """Whether a canonical host is meant. A pattern of letters never means an address."""
        if host in self.literal:
            return True
        globs = self.of_names
        if globs and host_address(host) is not None:
            globs = self.of_addresses
        return any(glob.matches(host) for glob in globs)


def _pattern(raw: str, *, allowing: bool) -> str:
    labels = raw.removesuffix(".").split(".")
    read = [label.lower() if "*" in label else _ascii(label) for label in labels]
    text = ".".join(read)
    _require_labels(text, _PIECE)
    if allowing and "*" in read[-1]:
        raise HostRefused(f"`{raw}` would allow anybody's host; name the last label")
    return text


def url_path_candidates(path: str) -> tuple[str, ...]:
    """Every reading of a URL path that a server may take: decoded, dots and slashes folded."""
    found: list[str] = []
    text = path
    for _ in range(3):
        for form in (text, _fold(text)):
            if form.lower() not in found:
                found.append(form.lower())
        decoded = unquote(text, errors="replace")
        if decoded == text:
            break
        text = decoded
    return tuple(found)


def _fold(path: str) -> str:
    kept: list[str] = []
    for segment in path.replace("\\", "/").partition("?")[0].split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def _ascii(raw: str) -> str:
    if raw.isascii() and "xn--" not in raw.lower():
        return raw.lower()
    import idna  # its tables take a while to load, and few hosts need them

    try:
        return idna.encode(raw, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise HostRefused(f"the host is not a valid name: {error}") from None


def _six(raw: str) -> str:
    try:
        address = ipaddress.IPv6Address(raw.partition("%")[0])
    except ValueError as error:
        raise HostRefused(f"the host is not an address: {error}") from None
    return str(address.ipv4_mapped or address)


def _four(name: str) -> ipaddress.IPv4Address | None:
    """WHATWG: a name that ends in a number is an address in one to four parts, or nothing."""
    parts = name.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise HostRefused("the host ends in a number and is no address")
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        raise HostRefused("the host has a part that is no octal number") from None
    room = 256 ** (5 - len(parts))
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= room:
        raise HostRefused("the host is an address out of range")
    value = numbers[-1]
    for place, number in enumerate(numbers[:-1]):
        value += number * 256 ** (3 - place)
    return ipaddress.IPv4Address(value)


def _number(part: str) -> int:
    if part[:2].lower() == "0x":
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


def _require_labels(name: str, shape: re.Pattern[str]) -> None:
    if not 0 < len(name) <= HOST_CHARS:
        raise HostRefused("the host is empty or too long")
    for label in name.split("."):
        if len(label) > LABEL_CHARS or not shape.fullmatch(label):
            raise HostRefused(f"the host has the part `{label[:80]}`, which no host name may have")


def _numeric(text: str) -> bool:
    return all(set(label) <= set("0123456789*") for label in text.split("."))


def _embedded(address: _Address) -> list[_Address]:
    """The address and every IPv4 address that travels inside it."""
    found: list[_Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        found += [four for four in (address.ipv4_mapped, address.sixtofour) if four]
        if address.teredo:
            found += address.teredo
        if int(address) >> 32 in (0, int(ipaddress.IPv6Address("64:ff9b::")) >> 32):
            found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _not_public(address: _Address) -> bool:
    return not address.is_global or address.is_multicast or address in _METADATA
