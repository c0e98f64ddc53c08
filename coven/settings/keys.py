"""The App's private key, in the forms in which people have pasted it.

Accepted: PEM, PEM with literal ``\\n``, in quotes, with CRLF, and base64 of any of these. An
OpenSSH or encrypted key, or one that is not RSA, is refused in words; no message holds key text.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coven.errors import ConfigurationError
from coven.settings.defaults import MAX_SECRET_BYTES
from coven.settings.models import Settings

_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----")
_KEY = "github.private_key"
_DOWNLOAD = "generate and download a new private key on the App's settings page"


def load_private_key(settings: Settings) -> str | None:
    """The configured key as clean PEM text; None when none is configured.

    Raises ``ConfigurationError`` naming the key and the fix.
    """
    if settings.github.private_key is not None:
        return clean_pem(settings.github.private_key.get_secret_value(), _KEY)
    path = settings.github.private_key_path
    if path is None:
        return None
    return clean_pem(_read(path), f"{_KEY}_path")


def clean_pem(text: str, key: str = _KEY) -> str:
    """Normal PEM of an RSA private key. Raises ``ConfigurationError``."""
    block = _BLOCK.search(_unwrap(text))
    if block is None:
        raise _refused(key, "is no PEM private key", _DOWNLOAD)
    label, body = block.groups()
    if label == "OPENSSH PRIVATE KEY":
        raise _refused(
            key, "is in OpenSSH format", f"use the PEM file that GitHub made: {_DOWNLOAD}"
        )
    if label == "ENCRYPTED PRIVATE KEY":
        raise _refused(key, "is encrypted", "store it without a pass phrase")
    lines = "".join(body.split())
    wrapped = "\n".join(lines[i : i + 64] for i in range(0, len(lines), 64))
    pem = f"-----BEGIN {label}-----\n{wrapped}\n-----END {label}-----\n"
    try:
        loaded = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _refused(key, "is damaged or cut", _DOWNLOAD) from None
    if not isinstance(loaded, RSAPrivateKey):
        raise _refused(key, "is no RSA key", _DOWNLOAD)
    return pem


def _unwrap(text: str) -> str:
    plain = _unquote(text)
    if "-----BEGIN" in plain:
        return plain
    try:
        packed = "".join(plain.split())
        return _unquote(base64.b64decode(packed, validate=True).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""


def _unquote(text: str) -> str:
    plain = text.strip().strip("\"'").replace("\\r", "").replace("\\n", "\n")
    if "Proc-Type:" in plain and "ENCRYPTED" in plain:
        return "-----BEGIN ENCRYPTED PRIVATE KEY----------END ENCRYPTED PRIVATE KEY-----"
    return plain


def _read(path: Path) -> str:
    key = f"{_KEY}_path"
    try:
        if not path.is_file():
            raise _refused(key, f"there is no file {path}", f"correct the path, or {_DOWNLOAD}")
        with path.open("rb") as file:
            return file.read(MAX_SECRET_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise _refused(
            key, f"{path} can't be read ({error.strerror})", "let the user of this process read it"
        ) from None
    except UnicodeDecodeError:
        raise _refused(key, f"{path} is no PEM file", _DOWNLOAD) from None


def _refused(key: str, problem: str, next_step: str) -> ConfigurationError:
    return ConfigurationError(f"{key}: {problem}; {next_step}")
