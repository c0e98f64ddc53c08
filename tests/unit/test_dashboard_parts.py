"""The pure parts of the dashboard: cookies, origins, rights, CSV cells, charts, stories."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from markupsafe import Markup

from coven.github.oauth import AppInstallation, Authorize, OAuthPerson, OAuthRepo
from webhooks.dashboard.charts import columns, nice
from webhooks.dashboard.grants import MOST_REPOS, grants_of
from webhooks.dashboard.lines import cell, csv_lines
from webhooks.dashboard.origins import after_login, is_own
from webhooks.dashboard.rendering import printed, reveal, took, url
from webhooks.dashboard.sessions import ANONYMOUS, ByGitHub, ByToken, Cookies, Grant, begin
from webhooks.dashboard.story import findings_of, verdict_of

NOW = datetime(2026, 7, 14, 10, 0, tzinfo=UTC)
COOKIES = Cookies(b"k" * 32)


def test_a_session_comes_back_as_it_was_written() -> None:
    who = ByGitHub(7, "mona", (Grant(41, "read", ("octo/demo",)),))
    session = begin(NOW, github=who).says("good", "done")
    assert COOKIES.read(COOKIES.write(session), NOW) == session


def test_a_session_ends_by_itself() -> None:
    value = COOKIES.write(begin(NOW, token=ByToken("service", None, "f")))
    assert COOKIES.read(value, NOW + ANONYMOUS - timedelta(seconds=1)) is not None
    assert COOKIES.read(value, NOW + ANONYMOUS) is None


def test_a_cookie_of_another_key_or_a_changed_one_is_nobodys() -> None:
    value = COOKIES.write(begin(NOW))
    assert Cookies(b"x" * 32).read(value, NOW) is None
    for position in range(0, len(value), 7):
        other = "A" if value[position] != "A" else "B"
        assert COOKIES.read(value[:position] + other + value[position + 1 :], NOW) is None


@pytest.mark.parametrize("value", ["", "x", "é", "=" * 40, "A" * 3_000, "\x00", "💥"])
def test_what_is_no_cookie_of_ours_is_no_error(value: str) -> None:
    assert COOKIES.read(value, NOW) is None


def test_the_token_of_a_form_belongs_to_one_session() -> None:
    one, two = begin(NOW), begin(NOW)
    assert COOKIES.is_csrf(one, COOKIES.csrf(one))
    assert not COOKIES.is_csrf(one, COOKIES.csrf(two))
    assert not COOKIES.is_csrf(one, "")
    assert not COOKIES.is_csrf(one, "é")
    assert COOKIES.is_csrf(replace(one, flash=(("good", "x"),)), COOKIES.csrf(one))


def test_a_fingerprint_needs_the_key() -> None:
    assert COOKIES.fingerprint("d") != Cookies(b"x" * 32).fingerprint("d")
    assert COOKIES.fingerprint("d") != COOKIES.fingerprint("e")


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"Origin": "http://host:8080"}, True),
        ({"Origin": "https://host:8080"}, True),
        ({"Origin": "https://public.example"}, True),
        ({"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "https://public.example", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "https://public.example", "Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://public.example"}, False),
        ({"Origin": "https://public.example.evil.example"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://["}, False),
        ({"Origin": ""}, False),
        ({}, False),
    ],
)
def test_only_our_own_pages_may_post(headers: dict[str, str], own: bool) -> None:
    assert is_own(headers, "host:8080", "https://public.example") is own


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ("/ops/tasks?state=failed", "/ops/tasks?state=failed"),
        ("/ops/memory/41/M-00000000", "/ops/memory/41/M-00000000"),
        ("//evil.example", "/ops/"),
        ("/ops//evil.example", "/ops/"),
        ("https://evil.example", "/ops/"),
        ("/\\evil.example", "/ops/"),
        ("/ops/\\evil", "/ops/"),
        ("/ops/\nLocation: x", "/ops/"),
        ("/webhook", "/ops/"),
        ("/opsx", "/ops/"),
        ("/ops/" + "a" * 600, "/ops/"),
        ("", "/ops/"),
        (None, "/ops/"),
    ],
)
def test_signing_in_leads_to_our_own_pages_only(wanted: str | None, where: str) -> None:
    assert after_login(wanted) == where


PERSON = OAuthPerson(7, "mona")


def _installed(*repos: tuple[str, bool, str], account: int = 99) -> AppInstallation:
    return AppInstallation(
        41, account, tuple(OAuthRepo(n, p, frozenset(r.split())) for n, p, r in repos)
    )


@pytest.mark.parametrize(
    ("found", "grants"),
    [
        (_installed(account=7), (Grant(41, "memory:write"),)),
        (
            _installed(("o/b", False, "pull push"), ("o/a", True, "pull admin")),
            (Grant(41, "memory:write", ("o/a", "o/b")),),
        ),
        (
            _installed(("o/a", True, "pull push"), ("o/b", True, "pull")),
            (Grant(41, "memory:write", ("o/a",)),),
        ),
        (_installed(("o/a", True, "pull")), (Grant(41, "read", ("o/a",)),)),
        (_installed(("o/a", False, "pull triage")), (Grant(41, "read", ("o/a",)),)),
        # Anybody can read a public repository: that proves nothing.
        (_installed(("o/a", False, "pull")), ()),
        (_installed(("o/a", True, "")), ()),
        (_installed(), ()),
    ],
)
def test_rights_on_github_become_grants(found: AppInstallation, grants: tuple[Grant, ...]) -> None:
    assert grants_of(PERSON, [found]) == grants


def test_the_largest_grants_fit_into_a_cookie() -> None:
    repos = [
        (f"organisation-{n:03}/repository-name-{n * 7919:08x}", True, "push") for n in range(90)
    ]
    (grant,) = grants_of(PERSON, [_installed(*repos)])
    assert len(grant.repos) == MOST_REPOS
    assert len(COOKIES.write(begin(NOW, github=ByGitHub(7, "mona", (grant,))))) < 3_800


def test_the_challenge_is_the_hash_of_the_verifier() -> None:
    # RFC 7636, appendix B.
    asked = Authorize("s", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert asked.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert Authorize.fresh() != Authorize.fresh()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "  =", "＝", "＠"])
def test_no_cell_is_a_formula(start: str) -> None:
    (row,) = list(csv.reader(io.StringIO(b"".join(_csv(f"{start}HYPERLINK(1)")).decode())))[1:]
    assert row[0].startswith("'")


def _csv(value: object) -> list[bytes]:
    return list(csv_lines(["a"], [[value]]))


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    assert [cell(v) for v in (3, -2, None, "a=b", "x\x00")] == ["3", "-2", "", "a=b", "x"]


def test_half_of_a_character_does_not_end_a_file() -> None:
    assert _csv("a\ud800") == [b"a\r\n", b"a?\r\n"]


def test_a_chart_is_plain_svg_whatever_it_is_named() -> None:
    chart = columns('<b>"x"', [("<script>", 3.0), ("a\u202eb", 0.0)], "minutes")
    root = ET.fromstring(str(chart))
    assert root.get("role") == "img"
    assert not {element.tag.rpartition("}")[2] for element in root.iter()} & {"script", "style"}
    assert all(
        not name.startswith("on") and name != "style" for e in root.iter() for name in e.attrib
    )
    assert "\u202e" not in chart
    assert columns("t", [], "x") == ""


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (1.2, 2), (3, 5), (7, 10), (11, 20), (60, 100), (1e4, 1e4)]
)
def test_scales_end_at_round_numbers(value: float, top: float) -> None:
    assert nice(value) == top


def test_hidden_characters_are_seen_everywhere() -> None:
    assert printed("a\u202eb\u200b") == "a\\u{202e}b\\u{200b}"
    assert printed(Markup("<b>")) == Markup("<b>")
    assert printed(None) == ""
    assert reveal("<i>\u200b") == Markup(
        '&lt;i&gt;<mark title="a character that shows nothing">U+200B</mark>'
    )
    assert len(str(printed("x" * 100_000))) < 21_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (61, "1 min 1 s"), (3_600, "1 h"), (90_000, "1 d 1 h"), (-5, "0 s"), (None, "–")],
)
def test_durations_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert took(seconds) == text


def test_addresses_are_quoted() -> None:
    assert url("deliveries", "../x?y#z") == "/ops/deliveries/..%2Fx%3Fy%23z"
    assert url("tasks", q="a&b", repo=None, state="") == "/ops/tasks?q=a%26b"


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "text",
        {"review": None},
        {"review": {"findings": "no list"}},
        {"review": {"findings": [None, 3, "x", {}]}},
        {"review": {"findings": [{"line": {}, "title": None}]}, "shown": "x", "withheld": [1]},
        {"shown": [None, 3], "withheld": {"gate": "many"}},
    ],
)
def test_a_result_of_any_shape_is_read(result: Any) -> None:
    assert not [each for each in findings_of(result).found if each.severity != "unknown"]


def test_findings_say_whether_github_shows_them() -> None:
    found = [
        {"severity": "high", "file": f"{n}.py", "line": 1, "title": n, "body": ""} for n in "ab"
    ]
    read = findings_of(
        {
            "review": {"findings": found},
            "shown": [{"path": "a.py", "title": "a"}],
            "withheld": {"scope": 1, "limit": 0},
        }
    )
    assert [(each.place, each.shown) for each in read.found] == [
        ("a.py:1", True),
        ("b.py:1", False),
    ]
    assert read.withheld == (("scope", 1),)


@pytest.mark.parametrize("payload", [None, "{", "[]", "3", '{"decision": 3}', '{"action": null}'])
def test_a_damaged_row_of_the_record_is_shown_as_such(payload: str | None) -> None:
    row = {"sequence": 3, "timestamp": "t", "event_type": "e", "payload": payload}
    assert verdict_of(row).sequence == 3
    assert verdict_of(row).verdict == ""
