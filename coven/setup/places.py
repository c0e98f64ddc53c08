"""Where setting up leaves its files, and how: secrets 0600, each file whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from coven.errors import ConfigurationError
from coven.governance.wire import Seam, governed_make_dir, governed_remove_tree, governed_write
from coven.settings.defaults import CONFIG_FILE, ENV_CONFIG
from coven.setup.choices import Choices
from coven.setup.convert import Registered

PENDING = ".coven-github.setup.json"
SECRETS = "secrets"


@dataclass(frozen=True, slots=True)
class Written:
    """The new App, with the secrets left in files."""

    app_id: int
    slug: str
    client_id: str
    html_url: str
    key_path: Path
    webhook_secret_path: Path
    client_secret_path: Path | None
    made_secret: bool = False
    """GitHub gave no webhook secret, so one was made here; it has to be put into the App."""

    @property
    def bot_login(self) -> str:
        return f"{self.slug}[bot]"


@dataclass(frozen=True, slots=True)
class Pending:
    """A registration that is under way, so that it can be finished later. Holds no secret of the
    App; ``state`` is worthless without a code."""

    choices: Choices
    state: str
    started_at: datetime
    written: Written | None = None


class Places:
    """The files of one set-up. Raises ``ConfigurationError`` with the fix when one can't be used.

    ``config``: the TOML file, there or not. Secrets lie in a folder beside it.
    """

    def __init__(self, config: Path, seam: Seam, secrets_dir: Path | None = None) -> None:
        self.config = config.absolute()
        self.folder = self.config.parent
        self.secrets_dir = (secrets_dir or self.folder / SECRETS).absolute()
        self._pending = self.folder / PENDING
        self._seam = seam

    def prepare(self) -> None:
        """Make the folders and prove that files can be written, before GitHub is asked: it hands
        the key out only once."""
        try:
            governed_make_dir(self._seam, self.folder, point="setup.folder", mode=0o755)
            governed_make_dir(self._seam, self.secrets_dir, point="setup.secrets")
            if not (self.secrets_dir / ".gitignore").exists():
                self._write(self.secrets_dir / ".gitignore", "*\n", 0o644)
            probe = self.secrets_dir / ".probe"
            self._write(probe, "")
            governed_remove_tree(self._seam, probe, point="setup.probe")
            if self.config.exists() and not os.access(self.config, os.W_OK):
                raise PermissionError(13, "Permission denied", str(self.config))
            mode = self.secrets_dir.stat().st_mode
        except OSError as error:
            raise ConfigurationError(
                f"setup: {error.filename or self.secrets_dir} can't be written ({error.strerror}); "
                "run this as the user who owns the folder, or choose another with --config"
            ) from None
        if mode & 0o022:
            raise ConfigurationError(
                f"setup: others may write in {self.secrets_dir}; run: chmod 700 {self.secrets_dir}"
            )

    def config_text(self) -> str | None:
        """The configuration as it stands; None when there is none."""
        try:
            return self.config.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(
                f"setup: {self.config} can't be read as UTF-8 text; correct it, or choose another "
                "with --config"
            ) from None

    def write_config(self, text: str) -> None:
        """Put the configuration in its place; what stood there is kept as ``.bak``."""
        old = self.config_text()
        try:
            if old is not None:
                self._write(self.config.with_name(self.config.name + ".bak"), old)
            self._write(self.config, text)
        except OSError as error:
            raise ConfigurationError(
                f"setup: {self.config} can't be written ({error.strerror}); make room or correct "
                "its rights, then run `coven-github setup` again: the App and its key are kept"
            ) from None

    def store(self, app: Registered, made_secret: str) -> Written:
        """Write key and secrets, under names that are not taken. ``made_secret`` stands in where
        GitHub gave no webhook secret."""
        key = self._free(f"{app.slug}.private-key.pem")
        self._write(key, app.pem if app.pem.endswith("\n") else f"{app.pem}\n")
        hook = self._free(f"{app.slug}.webhook-secret")
        self._write(hook, f"{app.webhook_secret or made_secret}\n")
        client: Path | None = None
        if app.client_secret:
            client = self._free(f"{app.slug}.client-secret")
            self._write(client, f"{app.client_secret}\n")
        return Written(
            app.id,
            app.slug,
            app.client_id,
            app.html_url,
            key,
            hook,
            client,
            made_secret=not app.webhook_secret,
        )

    def remember(self, pending: Pending) -> None:
        """Keep what is needed to go on after a failure."""
        data: dict[str, Any] = {
            "choices": pending.choices.to_json(),
            "state": pending.state,
            "started_at": pending.started_at.isoformat(),
        }
        if pending.written is not None:
            data["written"] = _written_to_json(pending.written)
        try:
            self._write(self._pending, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise ConfigurationError(
                f"setup: {self._pending} can't be written ({error.strerror})"
            ) from None

    def pending(self) -> Pending | None:
        """The registration under way, if there is one that can be read."""
        try:
            data = json.loads(self._pending.read_text(encoding="utf-8"))
            written = data.get("written")
            return Pending(
                Choices.from_json(data["choices"]),
                str(data["state"]),
                datetime.fromisoformat(data["started_at"]),
                None if written is None else _written_from_json(written),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigurationError):
            return None

    def forget(self) -> None:
        """Nothing is under way any more."""
        governed_remove_tree(self._seam, self._pending, point="setup.pending")

    def shown(self, path: Path) -> str:
        """A path as the configuration names it: relative to the file where that is shorter."""
        if path.is_relative_to(self.folder):
            return str(path.relative_to(self.folder))
        return str(path)

    def _free(self, name: str) -> Path:
        for number in range(1, 100):
            path = self.secrets_dir / (name if number == 1 else f"{number}.{name}")
            if not path.exists():
                return path
        raise ConfigurationError(f"setup: {self.secrets_dir} is full of old keys; tidy it up")

    def _write(self, path: Path, text: str, mode: int = 0o600) -> None:
        governed_write(self._seam, path, text.encode(), point="setup.write", mode=mode)


def config_path(named: Path | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """The file that the loader would read, or the one to make."""
    chosen = named or (Path(environ[ENV_CONFIG]) if environ.get(ENV_CONFIG, "").strip() else None)
    return (cwd / (chosen or CONFIG_FILE)).absolute()


def _written_to_json(written: Written) -> dict[str, Any]:
    client = written.client_secret_path
    return {
        "app_id": written.app_id,
        "slug": written.slug,
        "client_id": written.client_id,
        "html_url": written.html_url,
        "key_path": str(written.key_path),
        "webhook_secret_path": str(written.webhook_secret_path),
        "client_secret_path": None if client is None else str(client),
        "made_secret": written.made_secret,
    }


def _written_from_json(data: dict[str, Any]) -> Written:
    client = data["client_secret_path"]
    found = Written(
        app_id=int(data["app_id"]),
        slug=str(data["slug"]),
        client_id=str(data["client_id"]),
        html_url=str(data["html_url"]),
        key_path=Path(data["key_path"]),
        webhook_secret_path=Path(data["webhook_secret_path"]),
        client_secret_path=None if client is None else Path(client),
    )
    return replace(found, made_secret=bool(data["made_secret"]))
