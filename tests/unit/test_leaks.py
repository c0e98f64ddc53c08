"""The net below all tests catches what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import leaks

PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE"


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        "token ghs_" + "a" * 36,
        "ghp_" + "A1" * 18,
        "github_pat_" + "x" * 60,
        ".".join(["Bearer eyJ" + "h" * 20, "eyJ" + "p" * 20, "s" * 60]),
        "AKIA" + "Z" * 16,
    ],
)
def test_forms_of_credentials_are_seen(text: str, tmp_path: Path) -> None:
    assert leaks.found_in(text)
    (tmp_path / "web.log").write_text(f'{{"event": "{text}"}}\n')
    assert leaks.found_in_files([tmp_path / "web.log"])


@pytest.mark.parametrize(
    "text", ["ghs_[redacted]", "a" * 60, "eyJ", "ghs_short", "BEGIN CERTIFICATE", ""]
)
def test_other_texts_are_not(text: str) -> None:
    assert leaks.found_in(text) == []


def test_remembered_secrets_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_known", set())
    leaks.remember("correct horse battery", "short")
    assert leaks.found_in("x correct horse battery x") == ["corr"]
    assert leaks.found_in("short") == []


class _Item:
    def __init__(self, marked: bool) -> None:
        self._marked = marked

    def get_closest_marker(self, name: str) -> object | None:
        return object() if self._marked and name == "shows_secrets" else None


@pytest.mark.parametrize(
    ("section", "content", "marked", "outcome"),
    [
        ("Captured stdout call", "ghs_" + "a" * 36, False, "failed"),
        ("Captured log call", PEM, False, "failed"),
        ("Captured stderr setup", "AKIA" + "Z" * 16, False, "failed"),
        ("Captured stdout call", "nothing", False, "passed"),
        ("Captured stdout call", "ghs_" + "a" * 36, True, "passed"),
    ],
)
def test_a_test_that_shows_one_fails(
    section: str, content: str, marked: bool, outcome: str
) -> None:
    report = pytest.TestReport(
        "t", ("t", 0, "t"), {}, "passed", None, "call", sections=[(section, content)]
    )
    leaks.check(_Item(marked), report)  # type: ignore[arg-type]
    assert report.outcome == outcome
    assert "a" * 20 not in str(report.longrepr)


def test_the_net_is_hung(request: pytest.FixtureRequest) -> None:
    plugins = request.config.pluginmanager.get_plugins()
    assert any(getattr(p, "leaks", None) is leaks for p in plugins)
