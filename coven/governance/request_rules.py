"""Rules about ``network_request``: host, scheme, port, method, path, private addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coven.governance.actions import NetworkRequest
from coven.governance.globs import path_glob
from coven.governance.hosts import (
    DEFAULT_PORTS,
    HostRefused,
    HostSet,
    canonical_host,
    host_address,
    is_local_name,
    is_private,
    url_path_candidates,
)
from coven.governance.matchers import Condition, Finding, yes
from coven.governance.paths import lexical
from coven.governance.shapes import InvalidMatcher, Members, refusing
from coven.governance.world import World

KEYS = (
    "host", "host_any", "host_not_in", "scheme_in", "port_in", "method_in", "path_glob",
    "private_address",
)  # fmt: skip
NEEDED = ("host", "host_any", "host_not_in", "scheme_in", "port_in", "method_in", "private_address")

_WITH_PORT = re.compile(r"(\[.*\]|[^:]*):([0-9]{1,5})")


@dataclass
class RequestFacts:
    """What is known of one request; ``None`` where it is not."""

    host: str | None
    scheme: str | None
    port: int | None
    method: str | None
    paths: tuple[str, ...] | None
    addresses: Callable[[str], tuple[str, ...]]
    _private: Finding | None = field(default=None, init=False)

    def private(self) -> Finding:
        """Whether the host is, or its name leads to, an address that is not public."""
        if self._private is None:
            self._private = self._look()
        return self._private

    def _look(self) -> Finding:
        if self.host is None:
            return Finding.POSSIBLE
        if is_local_name(self.host):
            return Finding.YES
        if host_address(self.host) is not None:
            return yes(is_private(self.host))
        try:
            found = self.addresses(self.host)
            return yes(any(is_private(address) for address in found))
        except (OSError, ValueError):
            return Finding.POSSIBLE


def facts(action: NetworkRequest, unknown: frozenset[str], world: World) -> RequestFacts:
    """The facts of one request."""
    scheme = action.scheme.lower() or None
    host, port = _target(action)
    if port is None and scheme is not None:
        port = DEFAULT_PORTS.get(scheme)
    method = action.method.upper() if action.method else None
    paths = None if action.path is None else url_path_candidates(action.path)
    return RequestFacts(
        host=None if "host" in unknown else host,
        scheme=None if "scheme" in unknown else scheme,
        port=None if unknown & {"port", "scheme"} and action.port is None else port,
        method=None if "method" in unknown else method,
        paths=None if "path" in unknown else paths,
        addresses=world.addresses,
    )


def conditions(members: Members) -> tuple[Condition[RequestFacts], ...]:
    """The parts of one matcher. Raises ``InvalidMatcher``."""
    found: list[Condition[RequestFacts]] = []
    if "host" in members:
        found.append(_is_host(_hosts("host", members.expanded("host"))))
    if "host_any" in members:
        found.append(_is_host(_hosts("host_any", members.texts("host_any"))))
    if "host_not_in" in members:
        allowed = _hosts("host_not_in", members.texts("host_not_in"), allowing=True)
        found.append(_is_other_host(allowed))
    if "scheme_in" in members:
        schemes = frozenset(text.lower() for text in members.texts("scheme_in"))
        found.append(_among(schemes, lambda facts: facts.scheme))
    if "port_in" in members:
        ports = frozenset(members.counts("port_in", 0, 65535))
        found.append(_among(ports, lambda facts: facts.port))
    if "method_in" in members:
        methods = frozenset(text.upper() for text in members.texts("method_in"))
        found.append(_among(methods, lambda facts: facts.method))
    if "path_glob" in members:
        found.append(_path(members.expanded("path_glob")))
    if "private_address" in members:
        members.true("private_address")
        found.append(RequestFacts.private)
    return tuple(found)


def _target(action: NetworkRequest) -> tuple[str | None, int | None]:
    """The canonical host and the port; a port that stands in the host text is taken off it."""
    text, port = action.host, action.port
    found = _WITH_PORT.fullmatch(text)
    if found and (text.startswith("[") or text.count(":") == 1):
        text = found[1]
        if port is None:
            port = int(found[2])
    try:
        return canonical_host(text), port
    except HostRefused:
        return None, port


def _hosts(key: str, texts: Sequence[str], *, allowing: bool = False) -> HostSet:
    return refusing(key, lambda: HostSet.read(texts, allowing=allowing))


def _is_host(wanted: HostSet) -> Condition[RequestFacts]:
    return lambda facts: Finding.POSSIBLE if facts.host is None else yes(wanted.has(facts.host))


def _is_other_host(allowed: HostSet) -> Condition[RequestFacts]:
    return lambda facts: (
        Finding.POSSIBLE if facts.host is None else yes(not allowed.has(facts.host))
    )


def _among(
    wanted: frozenset[str] | frozenset[int], read: Callable[[RequestFacts], str | int | None]
) -> Condition[RequestFacts]:
    def condition(facts: RequestFacts) -> Finding:
        value = read(facts)
        return Finding.POSSIBLE if value is None else yes(value in wanted)

    return condition


def _path(texts: Sequence[str]) -> Condition[RequestFacts]:
    globs = [refusing("path_glob", lambda text=text: path_glob(text.lower())) for text in texts]  # type: ignore[misc]
    if not globs:
        raise InvalidMatcher("`path_glob` stands for nothing, so it can never match")

    def condition(facts: RequestFacts) -> Finding:
        if facts.paths is None:
            return Finding.POSSIBLE
        return yes(any(glob.matches(lexical(path)) for glob in globs for path in facts.paths))

    return condition
