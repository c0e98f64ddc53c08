"""The backend follows the settings, and host is refused between tenants."""

from __future__ import annotations

from typing import Any

import pytest

from coven.errors import ConfigurationError
from coven.settings.models import Settings
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.choose import choose
from worker.runtime.container import PINNED, Container
from worker.runtime.host import Host


def _settings(installations: int = 0, **worker: Any) -> Settings:
    return Settings.model_validate(
        {"worker": worker, "installations": [{"id": n + 1} for n in range(installations)]}
    )


def test_bubblewrap_is_the_default() -> None:
    assert isinstance(choose(_settings()), Bubblewrap)


def test_host_is_allowed_for_one_installation() -> None:
    assert isinstance(choose(_settings(1, backend="host")), Host)


def test_host_is_refused_for_several_installations() -> None:
    with pytest.raises(ConfigurationError, match="allow_host_backend"):
        choose(_settings(2, backend="host"))


def test_host_is_used_for_several_installations_when_allowed_explicitly() -> None:
    assert isinstance(choose(_settings(2, backend="host", allow_host_backend=True)), Host)


def test_an_image_without_digest_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sha256"):
        choose(_settings(backend="container"), {"PATH": "/usr/bin"})


def test_a_container_of_root_is_refused() -> None:
    settings = _settings(container={"image": "a/b@sha256:" + "0" * 64, "docker_bin": "sh"})
    container = Container(settings.worker.container, {"PATH": "/usr/bin:/bin"}, uid=0, gid=0)
    assert any("not root" in problem for problem in container.static_problems())


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("ghcr.io/a/b:latest", False),
        ("ghcr.io/a/b@sha256:" + "a" * 64, True),
        ("ghcr.io/a/b:1.2@sha256:" + "0" * 64, True),
        ("ghcr.io/a/b@sha256:" + "a" * 63, False),
        ("ghcr.io/a/b@sha256:" + "g" * 64, False),
        ("@sha256:" + "a" * 64, False),
    ],
)
def test_what_counts_as_pinned(image: str, pinned: bool) -> None:
    assert bool(PINNED.match(image)) is pinned


def test_a_bad_allow_list_is_refused_with_every_backend() -> None:
    for backend in ("host", "bubblewrap", "container"):
        with pytest.raises(ConfigurationError, match="env_allow"):
            choose(_settings(backend=backend, env_allow=["GITHUB_TOKEN"]))


def test_every_backend_says_what_it_does_not_enforce() -> None:
    settings = _settings()
    for backend in (Host(), Bubblewrap(), Container(settings.worker.container, {}, 1, 1)):
        text = " ".join(backend.describe())
        assert "enforced:" in text
        assert "not enforced:" in text
