"""What an operator may answer, and which addresses follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.errors import ConfigurationError
from coven.github.urls import api_root
from coven.governance.wire import Seam
from coven.settings.loader import load
from coven.setup.choices import (
    Choices,
    parse_name,
    parse_owner,
    parse_public_url,
    parse_site,
    parse_webhook_url,
)
from coven.setup.flow import changes_for
from coven.setup.places import Places, Written
from coven.setup.toml_text import merge


@pytest.mark.parametrize(
    ("given", "html", "api"),
    [
        ("github.com", "https://github.com", "https://api.github.com"),
        ("https://www.github.com/", "https://github.com", "https://api.github.com"),
        ("api.github.com", "https://github.com", "https://api.github.com"),
        ("ghe.example.com", "https://ghe.example.com", "https://ghe.example.com/api/v3"),
        (
            "ghe.example.com:8443",
            "https://ghe.example.com:8443",
            "https://ghe.example.com:8443/api/v3",
        ),
        ("acme.ghe.com", "https://acme.ghe.com", "https://api.acme.ghe.com"),
        ("https://api.acme.ghe.com", "https://acme.ghe.com", "https://api.acme.ghe.com"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("http://[::1]:5000", "http://[::1]:5000", "http://[::1]:5000"),
    ],
)
def test_a_site_is_known_by_its_pages_and_its_api(given: str, html: str, api: str) -> None:
    site = parse_site(given)
    assert (site.html, site.api) == (html, api)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "http://github.com",
        "https://me:pw@github.com",
        "https://github.com/acme",
        "ftp://github.com",
        "git hub.com",
        "https://[x",
        "github.com:port",
        "javascript:alert(1)",
    ],
)
def test_what_is_no_site_is_refused_with_a_next_step(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"setup: .*;") as refused:
        parse_site(given)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("given", ["", "x" * 35, "a<b", "-x", "tab\x1b[31m"])
def test_what_is_no_name_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_name(given)


def test_names_and_owners_are_tidied() -> None:
    assert parse_name("  Cody   Familiar ") == "Cody Familiar"
    assert parse_owner(" @acme ") == "acme"
    assert parse_owner("") is None
    with pytest.raises(ConfigurationError):
        parse_owner("acme/../../admin")


@pytest.mark.parametrize(
    "given",
    [
        "http://localhost:8080",
        "https://127.0.0.1",
        "https://0.0.0.0",
        "http://[::1]",
        "http://169.254.1.1",
        "coven.example.com",
        "https://me:pw@coven.example.com",
        "https://coven.example.com/?x=1",
    ],
)
def test_an_address_that_github_cannot_use_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_public_url(given)


def test_deliveries_go_to_the_tunnel_when_there_is_one() -> None:
    site = parse_site("github.com")
    public = parse_public_url("https://coven.example.com/")
    assert Choices(site, "Cody", public_url=public).deliveries_to == (
        "https://coven.example.com/webhook"
    )
    tunnel = parse_webhook_url("https://smee.example.com/abc")
    both = Choices(site, "Cody", public_url=public, webhook_url=tunnel)
    assert both.deliveries_to == "https://smee.example.com/abc"
    assert Choices(site, "Cody").deliveries_to is None


def test_the_form_goes_to_the_account_that_will_own_the_app() -> None:
    site = parse_site("ghe.example.com")
    assert Choices(site, "Cody").form_url("s t") == (
        "https://ghe.example.com/settings/apps/new?state=s+t"
    )
    assert Choices(site, "Cody", owner="acme").form_url("s") == (
        "https://ghe.example.com/organizations/acme/settings/apps/new?state=s"
    )


def test_choices_survive_being_written_down() -> None:
    chosen = Choices(parse_site("acme.ghe.com"), "Cody", "acme", "https://c.example.com")
    assert Choices.from_json(chosen.to_json()) == chosen


@pytest.mark.parametrize(
    ("host", "api", "html"),
    [
        ("github.com", "https://api.github.com", "https://github.com"),
        ("ghe.example.com", "https://ghe.example.com/api/v3", "https://ghe.example.com"),
        ("acme.ghe.com", "https://api.acme.ghe.com", "https://acme.ghe.com"),
    ],
)
def test_the_configuration_leads_to_the_same_github(
    host: str, api: str, html: str, tmp_path: Path
) -> None:
    places = Places(tmp_path / "c.toml", Seam())
    written = Written(7, "cody", "Iv1", html, tmp_path / "key", tmp_path / "hook", None)
    (tmp_path / "hook").write_text("0123456789abcdef\n")
    choices = Choices(parse_site(host), "Cody")
    old = '[github]\napi_base_url = "https://old.example.com"\n'
    (tmp_path / "c.toml").write_text(merge(old, changes_for(places, choices, written, fresh=True)))
    github = load(tmp_path / "c.toml", {}, tmp_path).settings.github  # type: ignore[union-attr]
    assert (api_root(github.api_base_url), github.html_base_url) == (api, html)
