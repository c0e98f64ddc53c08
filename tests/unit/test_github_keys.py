"""The private key: what is accepted, what is refused, and that no message shows key material."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from coven.errors import ConfigurationError
from coven.github.keys import parse_app_key, read_app_key
from coven.settings.models import GitHub
from tests.scripted_github import private_key, private_pem

PKCS8 = private_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

FORMS = {
    "plain": private_pem(),
    "pkcs8": PKCS8,
    "literal newlines": private_pem().replace("\n", "\\n"),
    "literal crlf": private_pem().replace("\n", "\\r\\n"),
    "double quotes": f'"{private_pem()}"',
    "single quotes and literal newlines": "'" + private_pem().replace("\n", "\\n") + "'",
    "crlf": private_pem().replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + private_pem(),
    "spaces for line ends": private_pem().strip().replace("\n", " "),
    "base64": base64.b64encode(private_pem().encode()).decode(),
    "wrapped base64": base64.encodebytes(private_pem().encode()).decode(),
    "url-safe base64": base64.urlsafe_b64encode(private_pem().encode()).decode(),
    "base64 of literal newlines": base64.b64encode(
        private_pem().replace("\n", "\\n").encode()
    ).decode(),
    "text around": f"# the key of the App\n{private_pem()}\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_in_use_gives_the_same_key(form: str) -> None:
    key = parse_app_key(FORMS[form])
    assert key.private.private_numbers() == private_key().private_numbers()


def test_a_path_is_read_from_either_setting(tmp_path: Path) -> None:
    path = tmp_path / "app.private-key.pem"
    path.write_text(private_pem())
    by_path = read_app_key(GitHub(private_key_path=path))
    instead_of_the_key = read_app_key(GitHub(private_key=SecretStr(str(path))))
    assert by_path == instead_of_the_key or by_path.pem == instead_of_the_key.pem


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: PrivateFormat) -> str:
    return key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()


REFUSED = {
    "encrypted pkcs8": (
        private_key()
        .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass"))
        .decode(),
        "passphrase",
    ),
    "encrypted traditional": (
        private_key()
        .private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"pass")
        )
        .decode(),
        "passphrase",
    ),
    "openssh": (_pem(private_key(), PrivateFormat.OpenSSH), "OpenSSH"),
    "public": (
        private_key()
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        .decode(),
        "public key",
    ),
    "elliptic curve": (_pem(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.PKCS8), "RSA"),
    "cut": (private_pem()[:400] + "\n-----END RSA PRIVATE KEY-----", "damaged"),
    "no end": (private_pem()[:400], "no PEM"),
    "empty": (" \n ", "no PEM"),
    "something else": ("hunter2", "no PEM"),
    "base64 of something else": (base64.b64encode(b"hello there").decode(), "no PEM"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_unusable_keys_are_refused_with_the_reason_and_without_key_material(form: str) -> None:
    text, reason = REFUSED[form]
    with pytest.raises(ConfigurationError, match=reason) as caught:
        parse_app_key(text, "github.private_key")
    message = str(caught.value)
    assert message.startswith("github.private_key: ")
    assert "\n" not in message
    lines = [line for line in text.split() if len(line) > 20]
    assert not any(line in message for line in lines)
    assert caught.value.__cause__ is None


def test_short_rsa_keys_are_refused() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(ConfigurationError, match="2048"):
        parse_app_key(_pem(weak, PrivateFormat.PKCS8))


def test_a_missing_key_names_the_setting_and_the_fix() -> None:
    with pytest.raises(ConfigurationError, match=r"github\.private_key: not set; download"):
        read_app_key(GitHub())
    with pytest.raises(ConfigurationError, match=r"github\.private_key: not set"):
        read_app_key(GitHub(private_key=SecretStr("  ")))


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "can't read"), (b"\xff\xfe\x00", "text"), (b"x" * 70_000, "large")],
)
def test_a_bad_key_file_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read_app_key(GitHub(private_key_path=path))
    assert "github.private_key_path" in str(caught.value)


def test_a_folder_is_not_a_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't read"):
        read_app_key(GitHub(private_key_path=tmp_path))


def test_the_key_has_no_revealing_repr() -> None:
    assert "BEGIN" not in repr(parse_app_key(private_pem()))


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=200).map(lambda b: b.decode("latin1"))))
def test_any_text_is_a_key_or_a_clear_refusal(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_app_key(GitHub(private_key=SecretStr(text)))


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ABCabc019+/=\n\\ -", max_size=400))
def test_any_body_between_the_lines_is_a_clear_refusal(body: str) -> None:
    text = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    with pytest.raises(ConfigurationError):
        parse_app_key(text)
