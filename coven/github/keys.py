"""Reading the App's private key, in every form in which people really store it.

Accepted: a PEM, and a PEM with literal ``\\n``, in quotes, with CRLF or spaces for line ends, or
as base64; or a path to such a file. Refused with a plain message that holds no key material:
encrypted, OpenSSH, public, certificate, not RSA, shorter than 2048 bits.
"""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coven.errors import ConfigurationError
from coven.settings.models import GitHub as GitHubSettings

MIN_BITS = 2048
_MAX_BYTES = 64 * 1024
_HINT = (
    "download a new private key on the App's settings page and point github.private_key_path at it"
)
_BLOCK = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]{1,40})-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\Z")


@dataclass(frozen=True, slots=True)
class AppKey:
    """A usable key; ``pem`` is the normalised text, for masking only."""

    private: RSAPrivateKey = field(repr=False)
    pem: str = field(repr=False)


def read_app_key(settings: GitHubSettings) -> AppKey:
    """The key that the configuration names. Raises ``ConfigurationError`` with the fix."""
    if settings.private_key is not None and settings.private_key.get_secret_value().strip():
        text = settings.private_key.get_secret_value()
        path = _as_path(text)
        if path is None:
            return parse_app_key(text, "github.private_key")
        return _read_file(path, "github.private_key")
    if settings.private_key_path is not None:
        return _read_file(settings.private_key_path, "github.private_key_path")
    raise ConfigurationError(f"github.private_key: not set; {_HINT}")


def parse_app_key(text: str, key: str = "github.private_key") -> AppKey:
    """Normalise and load ``text``; ``key`` names the setting in messages.

    Raises ``ConfigurationError``.
    """
    block = _find_block(text)
    if block is None:
        raise ConfigurationError(f"{key}: no PEM private key found in it; {_HINT}")
    label, body = block["label"], block["body"]
    if "OPENSSH" in label:
        raise ConfigurationError(f"{key}: this is an OpenSSH key, not the App's key; {_HINT}")
    if "ENCRYPTED" in label or "ENCRYPTED" in body:
        raise ConfigurationError(f"{key}: the key is encrypted; store it without a passphrase")
    if not label.endswith("PRIVATE KEY"):
        raise ConfigurationError(f"{key}: holds a {label.lower()}, not a private key; {_HINT}")
    lines = textwrap.wrap("".join(body.split()), 64)
    pem = "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
    try:
        private = load_pem_private_key(pem.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's text may quote what it read.
        raise ConfigurationError(f"{key}: the PEM is damaged or cut; {_HINT}") from None
    if not isinstance(private, RSAPrivateKey):
        raise ConfigurationError(f"{key}: not an RSA key, which GitHub Apps need; {_HINT}")
    if private.key_size < MIN_BITS:
        raise ConfigurationError(f"{key}: shorter than {MIN_BITS} bits; {_HINT}")
    return AppKey(private, pem)


def _find_block(text: str) -> re.Match[str] | None:
    cleaned = _unescape(text)
    found = _BLOCK.search(cleaned)
    if found is not None:
        return found
    packed = "".join(cleaned.split())
    if not _BASE64.match(packed):
        return None
    try:
        decoded = base64.b64decode(packed.replace("-", "+").replace("_", "/"), validate=True)
        return _BLOCK.search(_unescape(decoded.decode("utf-8")))
    except (binascii.Error, ValueError):
        return None


def _unescape(text: str) -> str:
    text = text.strip().lstrip("\ufeff").strip("\"'` \t\r\n")
    return text.replace("\\r", "").replace("\\n", "\n").replace("\r", "\n")


def _as_path(text: str) -> Path | None:
    # A path in the place of the key itself is a common slip, and it is clear what is meant.
    cleaned = text.strip().strip("\"'")
    if "-----" in cleaned or "\n" in cleaned or len(cleaned) > 4096:
        return None
    looks = cleaned.endswith((".pem", ".key")) or cleaned.startswith(("./", "../", "~/"))
    if not looks and not (cleaned.startswith("/") and len(cleaned) < 256):
        return None
    return Path(cleaned)


def _read_file(path: Path, key: str) -> AppKey:
    try:
        expanded = path.expanduser()
        with expanded.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ConfigurationError(f"{key}: can't read {str(path)[:200]}: {reason}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigurationError(f"{key}: {str(path)[:200]} is too large to be a private key")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{key}: {str(path)[:200]} is not a text file; {_HINT}") from None
    return parse_app_key(text, key)
