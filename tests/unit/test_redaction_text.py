from __future__ import annotations

import base64
import json
import re
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.redaction import MASK, Redactor

PLAIN = Redactor()
HEX36 = "a1b2c3d4e5f6" * 3
STATELESS = (
    "ghs_1234567_eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJpc3MiOiIxMjM0NTY3IiwiZXhwIjoxNzY0NjAwMDAwfQ"
    "." + "Ab-9_cD" * 50
)
JWT = STATELESS.split("_", 2)[2]
BODY = "MIIEowIBAAKCAQEA7bq5w2vN5T9uQ0k4m0x3" + "b" * 28
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----"
LIVE = 's3cr/t+v&lue=with "odd" ch%rs'

TOKENS = {
    "our own api": "cvn_0123456789ab_" + "0123456789abcdef" * 4,
    "classic": f"ghp_{HEX36}",
    "oauth": f"gho_{HEX36}",
    "user": f"ghu_{HEX36}",
    "installation": f"ghs_{HEX36}",
    "refresh": f"ghr_{HEX36}{HEX36}",
    "stateless": STATELESS,
    "fine-grained": "github_pat_11ABCDEFG0" + "aB3_" * 18,
    "old app": "v1." + "0123456789" * 4,
    "app jwt": JWT,
    "gitlab": "glpat-" + "aB3-" * 5,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws session": "ASIA" + "IOSFODNN7EXAMPLE",
    "azure": "AccountKey=" + "aB3+" * 21 + "aB==",
    "google": "AIza" + "aB3_-" * 7,
    "google oauth": "ya29." + "aB3_-" * 7,
    "openai": "sk-proj-" + "aB3_" * 12,
    "anthropic": "sk-ant-api03-" + "aB3_-" * 12,
    "groq": "gsk_" + "aB3c" * 13,
    "hugging face": "hf_" + "aB3c" * 9,
    "slack": "xoxb-123456789012-123456789012-" + "aB3c" * 6,
    "slack hook": "https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/" + "aB3c" * 6,
    "discord hook": "https://discord.com/api/webhooks/123456789012345678/" + "aB3_" * 16,
    "telegram": "123456789:AA" + "aB3_-x9" * 4 + "abcde",
    "npm": f"npm_{HEX36}",
    "pypi": "pypi-AgEIcHlwaS5vcmc" + "aB3_" * 20,
    "stripe": "sk_live_" + "aB3c" * 6,
    "sendgrid": "SG." + "aB3_-x" * 3 + "abcd." + "aB3_-x" * 7 + "z",
    "twilio": "SK" + "a1b2c3d4" * 4,
    "age": "AGE-SECRET-KEY-1" + "QZ7" * 19 + "Q",
    "vault": "hvs." + "aB3_" * 8,
}


def gone(text: str, secret: str, redactor: Redactor = PLAIN) -> str:
    masked = redactor.text(text)
    assert secret not in masked
    assert MASK in masked
    assert redactor.text(masked) == masked
    assert not redactor.has_secret(masked)
    assert redactor.has_secret(text)
    return masked


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("around", ["{}", "see {}.", "'{}'", "a={}&b=2", "\n{}\n", "<{}>"])
def test_every_known_shape_is_masked_whole(name: str, around: str) -> None:
    token = TOKENS[name]
    masked = gone(around.format(token), token)
    leftovers = masked.replace(MASK, "")
    assert token[-8:] not in leftovers
    assert len(leftovers) <= len(around) + 12


def test_no_part_of_a_stateless_token_stays() -> None:
    assert PLAIN.text(f"x {STATELESS} y") == f"x {MASK} y"


@pytest.mark.parametrize(
    "text",
    [
        "0123456789abcdef0123456789abcdef01234567",
        "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 (HEAD -> main)",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:" + "ab" * 32,
        "integrity sha512-" + "aB3+" * 21 + "aQ==",
        "index 83db48f..bf26a5d 100644",
        "token:",
        "password: required",
        "The token is optional, the password: see below.",
        "Authorization: Bearer <token>",
        "the ghs_ prefix, ghp_short and github_pat_x",
        "task-force, disk-based, sk-learn-contrib-packages-are-nice",
        "http://localhost:3000/@vite/client",
        "https://example.com:8443/a@b",
        "git clone git@github.com:acme/billing.git",
        "ssh://git@github.com/acme/billing.git",
        "https://medium.com/@someone/post-123",
        "https://x-access-token:${GITHUB_TOKEN}@github.com/o/r",
        "token = get_token2(request)",
        "api_key: str = settings.api_key2",
        "self.token = token or default_token_1",
        "f(token=token2, secret=sha256_hash)",
        "if token==expected1: pass",
        "password: ${DB_PASSWORD2}",
        "max_tokens=4096",
        "private_key=/etc/keys/app1.pem",
        'if text.startswith("-----BEGIN PRIVATE KEY-----"): '
        + "return load(text)  # a comment about nothing at all, and on it goes",
        "Basic authentication is required",
        "cookie: we use one",
        "authorization = self._get_installation_authorization()",
        "👩‍👩‍👧 naïve café 🏴 ﬁ ① Ａ",
        "e\u0301",
    ],
)
def test_innocent_text_is_untouched(text: str) -> None:
    assert PLAIN.text(text) == text
    assert not PLAIN.has_secret(text)


def test_base64_of_a_picture_is_untouched() -> None:
    # A linear congruential stream: the same bytes on every run.
    state, data = 1, bytearray()
    for _ in range(300_000):
        state = (state * 1103515245 + 12345) % 2**31
        data.append(state >> 16 & 0xFF)
    lines = base64.encodebytes(bytes(data)).decode()
    assert PLAIN.text(lines) == lines


# Places


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("x-api-key: S1|x-api-key: S2", f"x-api-key: {MASK}|x-api-key: {MASK}"),
        (
            "Authorization: Bearer t1|Authorization: Bearer t2",
            f"Authorization: Bearer {MASK}|Authorization: Bearer {MASK}",
        ),
        ('{"Authorization": "token abc123"}', f'{{"Authorization": "token {MASK}"}}'),
        ("redis://:pw@h", f"redis://{MASK}@h"),
        ("https://admin:p4ss@h/x", f"https://{MASK}@h/x"),
        ("postgres://u:p@ss@db:5432/x", f"postgres://{MASK}@db:5432/x"),
        ("redis://:a/b+c@h:6379/0", f"redis://{MASK}@h:6379/0"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", f"Proxy-Authorization: Basic {MASK}"),
        ("Basic eC1hY2Nlc3MtdG9rZW46Z2hzXy4uLg==", f"Basic {MASK}"),
        ("DB_PASSWORD=hunter2x", f"DB_PASSWORD={MASK}"),
        ("password=hunter22 next", f"password={MASK} next"),
        ('"password": "hunter2"', f'"password": "{MASK}"'),
        ('\\"secret\\": \\"abc123def\\"', f'\\"secret\\": \\"{MASK}\\"'),
        ("AWS_SECRET_ACCESS_KEY=wJalr/XUtn7F+MI/K7MDENG", f"AWS_SECRET_ACCESS_KEY={MASK}"),
        ("?access_token=a%2Bb1c2d3&x=1", f"?access_token={MASK}&x=1"),
        ("tool --token abc123def --verbose", f"tool --token {MASK} --verbose"),
        ("Cookie: session=abc; theme=dark\nHost: x", f"Cookie: {MASK}\nHost: x"),
        (
            "fatal: unable to access 'https://x-access-token:ghs_x@github.com/o/r/': 403",
            f"fatal: unable to access 'https://{MASK}@github.com/o/r/': 403",
        ),
        (
            f"fatal: unable to access 'https://x-access-token:ghs_{'a1B2' * 9}@github.com/o/r/'",
            f"fatal: unable to access 'https://{MASK}@github.com/o/r/'",
        ),
    ],
)
def test_values_in_secret_places_are_masked_and_the_rest_stays(text: str, masked: str) -> None:
    assert PLAIN.text(text) == masked
    assert PLAIN.text(masked) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"a\n{PEM}\nb", f"a\n{MASK}\nb"),
        (f"a\n{PEM[:80]}", f"a\n{MASK}"),
        (json.dumps({"key": PEM, "n": 1}), f'{{"key": "{MASK}", "n": 1}}'),
        (f"k {PEM.replace(chr(10), ' ')} z", f"k {MASK} z"),
        ("x -----BEGIN OPENSSH PRIVATE KEY-----\nMIIE", f"x {MASK}"),
        (
            f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{BODY}\n=abcd\n"
            "-----END PGP PRIVATE KEY BLOCK-----.",
            f"{MASK}.",
        ),
        (f"log:\n{BODY}\n-----END RSA PRIVATE KEY-----\nok", f"log:{MASK}\nok"),
        (f"{PEM}\n{PEM}", f"{MASK}\n{MASK}"),
    ],
)
def test_private_keys_are_masked_with_or_without_their_marker_lines(text: str, masked: str) -> None:
    assert PLAIN.text(text) == masked
    assert PLAIN.text(masked) == masked


# Live values


def spellings(value: str) -> dict[str, str]:
    raw = value.encode()
    basic = base64.b64encode(b"x-access-token:" + raw).decode()
    found = {
        "plain": value,
        "url": quote(value, safe=""),
        "url lower": re.sub("%..", lambda pair: pair[0].lower(), quote(value, safe="")),
        "every byte": "".join(f"%{byte:02X}" for byte in raw),
        "json": json.dumps(value)[1:-1],
        "json twice": json.dumps(json.dumps(value))[3:-3],
        "json slash": json.dumps(value)[1:-1].replace("/", "\\/"),
        "hex": raw.hex(),
        "basic": f"Basic {basic}",
        "basic bare": basic,
        "base64 in url": quote(base64.b64encode(raw).decode(), safe=""),
        "wrapped": base64.encodebytes(raw * 3).decode(),
    }
    for offset in range(3):
        encoded = base64.b64encode(b"xy"[:offset] + raw + b"tail").decode()
        found[f"base64 at {offset}"] = encoded
        found[f"base64url at {offset}"] = encoded.replace("+", "-").replace("/", "_").rstrip("=")
        found[f"base64 end {offset}"] = base64.b64encode(b"xy"[:offset] + raw).decode()
    return found


@pytest.mark.parametrize("form", spellings("x" * 40))
@pytest.mark.parametrize("value", [LIVE, STATELESS, "Abcdefgh", "plain-secret-value-1"])
def test_a_live_value_is_found_in_every_spelling(form: str, value: str) -> None:
    text = spellings(value)[form]
    redactor = Redactor().with_live(value)
    masked = redactor.text(f"before {text} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert MASK in masked
    assert len(masked.replace(MASK, "")) <= len("before  after") + 20 + text.count("\n")
    assert redactor.text(masked) == masked


def test_a_short_value_is_never_masked() -> None:
    assert Redactor(["secret7"]).text("the secret7 is short") == "the secret7 is short"
    assert Redactor(["", "a"]).text("a b") == "a b"


def test_with_live_gives_a_copy() -> None:
    first = Redactor(["first-live-value"])
    second = first.with_live("second-live-value")
    assert second.text("first-live-value second-live-value") == f"{MASK} {MASK}"
    assert first.text("second-live-value") == "second-live-value"


def test_a_half_of_a_live_value_is_masked() -> None:
    value = "qwertyuiopasdfghjklzxcvbnmQWERTYUIOP"
    assert Redactor([value]).text(f"cut {value[: len(value) // 2]}") == f"cut {MASK}"


def test_the_lines_of_a_live_key_are_masked_one_by_one() -> None:
    assert Redactor([PEM]).text(f"line {BODY} end") == f"line {MASK} end"


def test_a_live_value_that_looks_like_the_mask_does_not_loop() -> None:
    redactor = Redactor(["redacted", "[redacted", "[redacted]"])
    assert redactor.text(f"a {MASK} b") == f"a {MASK} b"


# Hidden splits


@pytest.mark.parametrize(
    "hidden", ["\u2061", "\u200b", "\u200d", "\u00ad", "\ufeff", "\ufe0f", "\x1b[31m", "\U000e0041"]
)
def test_invisible_characters_do_not_hide_a_secret(hidden: str) -> None:
    for redactor, token in ((PLAIN, TOKENS["installation"]), (Redactor([LIVE]), LIVE)):
        assert redactor.text(f"a {hidden.join(token)} b") == f"a {MASK} b"


def test_tag_and_styled_letters_do_not_hide_a_secret() -> None:
    token = TOKENS["classic"]
    assert PLAIN.text("a " + "".join(chr(0xE0000 + ord(c)) for c in token) + " b") == f"a {MASK} b"
    assert PLAIN.text("a " + "".join(chr(0xFEE0 + ord(c)) for c in token) + " b") == f"a {MASK} b"


def test_invisible_characters_elsewhere_stay_where_they_were() -> None:
    text = f"👩\u200d👧 x {TOKENS['classic']} 👩\u200d👧 \u200b end"
    assert PLAIN.text(text) == f"👩\u200d👧 x {MASK} 👩\u200d👧 \u200b end"


def test_redaction_comes_before_cutting() -> None:
    text = "x" * 65_530 + " " + STATELESS
    cut = PLAIN.text(text)[:65_536]
    assert "ghs_" not in cut


# Trees


def test_a_tree_is_masked_in_keys_values_and_under_secret_names() -> None:
    token = TOKENS["installation"]
    tree = {token: 1, "a": [token, 2, None, True, 1.5], "db_password": "abc", "n": {"k": "ok"}}
    assert PLAIN.tree(tree) == {
        MASK: 1,
        "a": [MASK, 2, None, True, 1.5],
        "db_password": MASK,
        "n": {"k": "ok"},
    }


def test_a_bottomless_tree_is_cut() -> None:
    tree: list[object] = []
    for _ in range(10_000):
        tree = [tree]
    assert MASK in str(PLAIN.tree(tree))  # type: ignore[arg-type]


# Properties

PIECES = st.lists(
    st.sampled_from(
        [*TOKENS.values(), LIVE, PEM, PEM[:60], MASK, "ghs_", "eyJ", ".eyJ", "://", "@", ":", "=",
         "Bearer ", "Authorization: ", "password=", '"', "'", "\n", " ", "\u200b", "-----BEGIN",
         " PRIVATE KEY-----", "a1", "Basic ", "token", "https://u:p1@h", "\\", "[", "]",
         "Cookie: a="]
    )
    | st.text(max_size=6),
    max_size=14,
).map("".join)  # fmt: skip
HOLDER = Redactor([LIVE])


@settings(deadline=None, max_examples=300)
@given(text=PIECES)
def test_redaction_is_idempotent_and_agrees_with_has_secret(text: str) -> None:
    masked = HOLDER.text(text)
    assert HOLDER.text(masked) == masked
    assert not HOLDER.has_secret(masked)
    assert HOLDER.has_secret(text) == (masked != text)
    assert LIVE not in masked


ONE_RUN = ["token={}1$", "authorization: {}!", "https://{}", "eyJ{}", "ghs_{}", "{}.eyJ", "x://{}@"]


@pytest.mark.parametrize("frame", ONE_RUN)
@pytest.mark.parametrize("letter", ["a", "a1", "a.", "_-", "A/"])
def test_one_long_run_takes_linear_time(frame: str, letter: str) -> None:
    start = time.process_time()
    HOLDER.text(frame.format(letter * 250_000))
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "unit",
    ["ghs_", "eyJ", "eyJ.", "://", "://a:b@", "-----BEGIN PRIVATE KEY-----", "password=", "sk-",
     "Basic ", "a", "A\u200b", "AKIA", "xoxb-1-", "=", "-", "token: a1b2c3d4 ", "\n ", "Z2hzX",
     "-----END PRIVATE KEY-----", "\U000e0041", "s3cr/t+v&lu", '"password="', "a\n", "Bearer 1"],
)  # fmt: skip
def test_adversarial_text_takes_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    HOLDER.text(text)
    # Linear is below 3 s per million characters on a slow machine; quadratic is minutes.
    assert time.process_time() - start < 15
