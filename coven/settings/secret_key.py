"""The key that signs comment markers and cookies: configured, or generated once and kept."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from coven.errors import ConfigurationError
from coven.governance.wire import Seam, writing
from coven.settings.models import Settings

FILE_NAME = "secret_key"
_BYTES = 32


def resolve_secret_key(settings: Settings, seam: Seam | None = None) -> bytes:
    """The key as bytes. Every process of one state dir gets the same one.

    Raises ``ConfigurationError`` when the state dir can't be written or the file is damaged.
    """
    if settings.server.secret_key is not None:
        return settings.server.secret_key.get_secret_value().encode()
    path = settings.server.state_dir / FILE_NAME
    try:
        if not path.exists():
            effects = seam or Seam()
            effects.perform(writing(path), "state.secret_key", lambda: _create(path))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except OSError as error:
        raise ConfigurationError(
            f"server.state_dir: {path} can't be used ({error.strerror}); make the folder writable "
            "for the user of this process, or set server.secret_key"
        ) from None
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise ConfigurationError(
            f"server.secret_key: {path} is damaged; restore it from a backup, or remove it "
            "(comments written so far are then not recognised any more)"
        )
    return key


def _create(path: Path) -> None:
    """Write a fresh key unless another process is faster; readers never see half a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link fails when the name exists, so the first of two racing processes wins.
        os.link(mine, path)
    except FileExistsError:
        return
    finally:
        mine.unlink(missing_ok=True)
