"""Tokens of an attempt end with it, and no code is fetched for a backend that is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coven.clock import SystemClock
from coven.errors import ConfigurationError, WorkspaceUnavailable
from coven.github.models import Token
from coven.github.roles import Role
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar, Settings
from coven.store.engine import Store
from coven.store.tasks import Task
from tests.ledger import NOW, look, put
from worker.session import prepare

FAMILIAR = Familiar(id="cody", display_name="Cody", bot_username="cody-familiar[bot]")


@dataclass
class TokenDesk:
    """The part of GitHub that hands tokens out and takes them back."""

    minted: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)

    def own_token(self, installation: int, repo_id: int, role: Role) -> Token:
        self.minted.append(f"ghs_{role.value}{len(self.minted):030d}")
        return Token(self.minted[-1], NOW + timedelta(hours=1), {})

    def revoke(self, token: Token) -> None:
        self.revoked.append(token.value)


def services(folder: Path, desk: TokenDesk, **sections: Any) -> Services:
    settings = Settings.model_validate(
        {
            "server": {"state_dir": str(folder)},
            # Nobody listens there.
            "github": {"html_base_url": "http://127.0.0.1:9"},
            **sections,
        }
    )
    parts = SimpleNamespace(settings=settings, github=desk, seam=Seam(), clock=SystemClock())
    return cast(Services, parts)


def review(store: Store) -> Task:
    return look(store, put(store, head_sha="a" * 40, default_branch="main", base_ref="main"))


def test_a_checkout_that_fails_revokes_its_token(tmp_path: Path, sqlite_store: Store) -> None:
    desk = TokenDesk()
    with pytest.raises(WorkspaceUnavailable):
        prepare(
            services(tmp_path, desk, worker={"backend": "host"}),
            review(sqlite_store),
            FAMILIAR,
            Redactor(),
            lambda: None,
        )
    assert len(desk.minted) == 1
    assert desk.revoked == desk.minted


def test_a_backend_that_would_mix_tenants_is_refused_before_anything_is_fetched(
    tmp_path: Path, sqlite_store: Store
) -> None:
    desk = TokenDesk()
    with pytest.raises(ConfigurationError, match="other installations"):
        prepare(
            services(
                tmp_path,
                desk,
                worker={"backend": "host"},
                installations=[{"id": 1}, {"id": 2}],
            ),
            review(sqlite_store),
            FAMILIAR,
            Redactor(),
            lambda: None,
        )
    assert desk.minted == []
    assert not (tmp_path / "workspaces").exists()
