"""Which hosts a program talks to, by its arguments. Pure; a table, not a promise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from coven.governance.bash_git import remotes
from coven.governance.bash_options import split
from coven.governance.bash_peel import family
from coven.governance.bash_tools import CURL_VALUED, WGET_VALUED
from coven.governance.bash_words import SPLIT, UNKNOWN, Fields, is_known, names


@dataclass(frozen=True, slots=True)
class Request:
    """A host (with marks) and what is known of the request."""

    host: str
    scheme: str = ""
    port: int | None = None
    method: str | None = None
    path: str | None = None


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*[^/]")
_IMAGE = re.compile(r"(?:docker://)?[\w-]+(\.[\w-]+)+(:\d+)?/")
"""A container image or a module that names its host."""
_ANY_URL = re.compile(r"\b(?:https?|wss?|ftp)://[^\s'\"`<>()\\]+", re.IGNORECASE)
_QUIET = names(
    "echo printf grep egrep fgrep rg ag sed awk gawk test [ export declare local readonly typeset "
    "alias set true false : cat head tail jq yq sort uniq tr cut tee touch mkdir rm mv cp ln ls "
    "find xargs read git gh eval trap read cd pushd"
)
_TARGETED = {
    "ssh": "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w",
    "nc": "-e -c -g -G -i -I -o -O -p -q -s -T -V -w -x -X",
    "ncat": "-e -c -g -G -i -m -o -p -s -w -x --exec --sh-exec --proxy",
    "netcat": "-e -c -i -p -q -s -w -x -X",
    "telnet": "-e -l -n -b",
    "ping": "-c -i -I -s -t -w -W -Q",
    "ping6": "-c -i",
    "nslookup": "", "host": "-t -c -N -R -W", "dig": "-t -p -q -b -c -x", "drill": "-t",
    "traceroute": "-m -q -w", "mosh": "--ssh", "whois": "-h -p", "ftp": "", "sftp": "-P -i -o -b",
    "lftp": "-e -u -p", "rlogin": "", "rsh": "", "nmap": "-p", "websocat": "", "grpcurl": "-d",
}  # fmt: skip
_CLIENTS = {
    "curl": CURL_VALUED, "wget": WGET_VALUED,
    "http": "", "https": "", "xh": "", "httpie": "", "aria2c": "-d -o -x -s -j", "axel": "-o -n",
    "lynx": "", "w3m": "", "links": "", "elinks": "", "hurl": "", "wget2": "-O -P", "curlie": "",
}  # fmt: skip


def requests(argv: Fields) -> list[Request]:
    """The hosts that ``argv`` reaches."""
    if not argv or not is_known(argv[0]):
        return []
    name, rest = family(argv[0]), argv[1:]
    if name in _CLIENTS:
        return _client(name, rest)
    if name == "git":
        return [_remote(url) for url in remotes(rest)]
    if name in _TARGETED:
        return _targeted(name, rest)
    if name in ("scp", "rsync"):
        return [
            _remote(field)
            for field in split(rest, "-P -i -o -F -e --rsh").operands
            if re.match(r"[^/]*:", field)
        ]
    if name == "socat":
        return [
            _pair(match.group(1))
            for field in rest
            for match in re.finditer(
                r"(?i)(?:tcp|udp|openssl|ssl|sctp)[46]?(?:-connect)?:([^,]+)", field
            )
        ]
    if name == "openssl":
        return [_pair(rest[at + 1]) for at, field in enumerate(rest[:-1]) if field == "-connect"]
    if name in ("docker", "podman", "nerdctl", "buildah", "skopeo"):
        pulled = [_image(split(rest).operands[-1])] if "pull" in rest else []
        return pulled + [_image(field) for field in rest if _IMAGE.match(field)]
    if name == "gh":
        return _gh(rest)
    if name == "getent":
        return [Request(host) for host in split(rest).operands[1:] if "." in host]
    if name == "go":
        return [_image(field) for field in rest if _IMAGE.match(field)]
    if name in _QUIET:
        return []
    return [url_request(match.group()) for field in rest for match in _ANY_URL.finditer(field)]


def requests_in(code: str) -> list[Request]:
    """Hosts of URLs in code of another language."""
    return [url_request(match.group()) for match in _ANY_URL.finditer(code)]


def device(path: str) -> Request | None:
    """``/dev/tcp/host/port`` as bash opens it."""
    match = re.match(r"/dev/(?:tcp|udp)/([^/]+)/([^/]+)\Z", path)
    if match is None:
        return None
    port = match.group(2)
    return Request(match.group(1), port=int(port) if port.isdigit() and int(port) < 65536 else None)


def url_request(url: str, scheme: str = "http", method: str | None = None) -> Request:
    """The host of a URL, or of a text that a client takes for one."""
    if not _URL.match(url) or re.match(r"[\w.-]+:\d+(/|\Z)", url):
        url = f"{scheme}://{url}"
    if not is_known(url.partition("://")[2].partition("/")[0]):
        return Request(UNKNOWN, method=method)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Request(UNKNOWN, method=method)
    authority = parts.netloc
    if "\\" in authority or not parts.hostname:
        return Request(UNKNOWN, method=method)
    path = parts.path if is_known(parts.path) else None
    return Request(parts.hostname, parts.scheme, port, method, path or None)


def _client(name: str, rest: Fields) -> list[Request]:
    given = split(rest, _CLIENTS[name])
    method: str | None = (given.values("-X", "--request", "--method") or [""])[-1] or None
    scheme = "https" if name == "https" else "http"
    urls = [*given.operands, *given.values("--url")]
    if name in ("http", "xh", "httpie", "https"):
        verbs = [
            one for one in urls if re.fullmatch(r"(?i)get|head|post|put|patch|delete|options", one)
        ]
        method = verbs[0] if verbs else method
        urls = [one for one in urls if one not in verbs][:1]
    if given.has("-K", "--config", "-i", "--input-file") and name in ("curl", "wget"):
        reads = given.values("-K", "--config") if name == "curl" else (
            given.values("-i", "--input-file")
        )  # fmt: skip
        urls += [UNKNOWN for _ in reads]
    found = [url_request(url, scheme, method) for url in urls]
    found += [
        url_request(value)
        for value in given.values("-x", "--proxy", "--preproxy", "--socks5", "--socks4",
                                  "--socks5-hostname", "--socks4a", "--doh-url")
        if name == "curl"
    ]  # fmt: skip
    for value in given.values("--connect-to", "--resolve"):
        parts = value.lstrip("+-").split(":")
        if len(parts) > 2:
            found.append(Request(parts[2] or UNKNOWN))
    for value in given.values("-e", "--execute") if name == "wget" else ():
        if "proxy" in value:
            found.append(url_request(value.partition("=")[2].strip()))
    return [one for one in found if one.host != SPLIT]


def _targeted(name: str, rest: Fields) -> list[Request]:
    given = split(rest, _TARGETED[name])
    found = []
    if name in ("nc", "ncat", "netcat") and given.has("-l", "--listen"):
        return []
    operands = [one for one in given.operands if not one.startswith(("@", "+"))]
    servers = [one[1:] for one in given.operands if one.startswith("@")]
    if name in ("nslookup", "host"):
        servers += operands[1:2]
    if operands:
        target = operands[0]
        if "://" in target:
            found.append(url_request(target))
        else:
            port = operands[1] if len(operands) > 1 and operands[1].isdigit() else ""
            host = target.rpartition("@")[2] if is_known(target) else UNKNOWN
            host = host.partition(":")[0] if host.count(":") == 1 else host
            found.append(Request(host, port=int(port) if port and int(port) < 65536 else None))
    if name == "ssh":
        servers += [jump.rpartition("@")[2].partition(":")[0] for jump in given.values("-J")]
    return found + [Request(host) for host in servers]


def _gh(rest: Fields) -> list[Request]:
    """``gh``: one server, and with ``api`` a request that is spelt out."""
    given = split(rest, "--hostname -X --method -f -F -H -q -t --field --raw-field --header "
                        "--input --jq --template -R --repo")  # fmt: skip
    host = (given.values("--hostname") or ["api.github.com"])[-1]
    if given.operands[:1] != ("api",):
        return [Request(host, "https")]
    sends = given.has("-f", "-F", "--field", "--raw-field", "--input")
    method = (given.values("-X", "--method") or ["POST" if sends else "GET"])[-1]
    path = given.operands[1] if len(given.operands) > 1 else UNKNOWN
    if "://" in path:
        return [url_request(path, method=method)]
    return [
        Request(host, "https", None, method, f"/{path.lstrip('/')}" if is_known(path) else None)
    ]


def _remote(text: str) -> Request:
    if not is_known(text):
        return Request(UNKNOWN)
    if re.match(r"[a-z+]+://", text):
        return url_request(text)
    host = text.partition(":")[0].rpartition("@")[2]
    return Request(host or UNKNOWN, "ssh")


def _pair(text: str) -> Request:
    if not is_known(text):
        return Request(UNKNOWN)
    host, _, port = text.rpartition(":")
    return Request(host or text, port=int(port) if port.isdigit() and int(port) < 65536 else None)


def _image(text: str) -> Request:
    if not is_known(text):
        return Request(UNKNOWN)
    first = text.removeprefix("docker://").partition("/")[0]
    known = "/" in text and ("." in first or ":" in first or first == "localhost")
    host = first.partition(":")[0] if known else "registry-1.docker.io"
    return Request(host, "https")
