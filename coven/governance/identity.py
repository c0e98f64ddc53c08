"""Keys on disk: one folder, one layout, one resolver for whoever signs and whoever verifies.

======================  =====  ================================================================
file                    mode   content
======================  =====  ================================================================
``operator.priv``       0600   32 raw bytes; on the operator's machine only
``operator.pub``        0644   32 raw bytes; verifies rules and policy heads
``service.priv``        0600   32 raw bytes; signs the audit chain
``service.pub``         0644   32 raw bytes
``trusted_keys/*.pub``  0644   further operator keys, while one is rotated
``service_keys/*.pub``  0644   earlier service keys, so that old audit rows still verify
======================  =====  ================================================================

A file that is there but can't be trusted (wrong mode, wrong owner, a link, the wrong length) is an
error with its remedy, never "no key".
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coven.errors import ConfigurationError
from coven.governance.locked import locked
from coven.governance.signing import KEY_BYTES, PublicKeys, Signer, key_id
from coven.governance.wire import Seam, governed_make_dir, governed_write
from coven.settings.models import Settings

Role = Literal["operator", "service"]

NO_OPERATOR_KEY = "governance.no_operator_key"
PRIVATE_MODE = 0o600
LOCK = ".lock"
PUBLIC_MODES = frozenset({0o644, 0o444, 0o640, 0o440, 0o600, 0o400})
_FOLDERS: dict[Role, str] = {"operator": "trusted_keys", "service": "service_keys"}


class KeyProblem(ConfigurationError):
    """A key file can't be used; the message begins with ``governance.no_operator_key``."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{NO_OPERATOR_KEY}: {what}")


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The folder of all keys. Reads the disk at every call; nothing is kept."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> KeyRing:
        """``governance.key_dir``, else ``<state_dir>/keys``."""
        configured = settings.governance.key_dir
        return cls((configured or settings.server.state_dir / "keys").absolute())

    def signer(self, role: Role) -> Signer:
        """The private key of a role, checked against its public half. Raises ``KeyProblem``."""
        path = self.folder / f"{role}.priv"
        self._check_folder()
        seed = _read(path, frozenset({PRIVATE_MODE}), f"chmod 600 {path}")
        if seed is None:
            step = f"run `coven-github identity generate --agent-id {role}`, or set key_dir"
            raise KeyProblem(f"there is no {path}; {step}")
        signer = Signer.from_seed(seed)
        public = self._public(role)
        if public is not None and public != signer.public:
            raise KeyProblem(
                f"{path} and {role}.pub are no pair; restore both from one backup, or generate new"
            )
        return signer

    def public_keys(self, role: Role) -> PublicKeys:
        """Every public key that is trusted for a role; maybe none. Raises ``KeyProblem``."""
        self._check_folder()
        found = [key for key in [self._public(role)] if key is not None]
        more = self.folder / _FOLDERS[role]
        if more.is_symlink() or more.exists():
            _check_dir(more)
            for path in sorted(more.glob("*.pub")):
                key = _read(path, PUBLIC_MODES, f"chmod 644 {path}")
                if key is not None:
                    found.append(key)
        return PublicKeys(found)

    def generate(self, role: Role, *, force: bool = False, seam: Seam | None = None) -> Signer:
        """Make a key pair. The public half of a replaced key stays trusted in its folder.

        Raises ``KeyProblem`` when there is one already and ``force`` is not given.
        """
        seam = seam or Seam()
        governed_make_dir(seam, self.folder, point="keys.folder")
        self._check_folder()
        with locked(self.folder / LOCK):
            return self._generate(role, seam, force=force)

    def service(self, seam: Seam | None = None) -> Signer:
        """The service's key, made when there is none yet. Raises ``KeyProblem``."""
        seam = seam or Seam()
        governed_make_dir(seam, self.folder, point="keys.folder")
        self._check_folder()
        with locked(self.folder / LOCK):
            if not self._there("service"):
                return self._generate("service", seam, force=False)
        return self.signer("service")

    def _there(self, role: Role) -> bool:
        path = self.folder / f"{role}.priv"
        return path.is_symlink() or path.exists()

    def _generate(self, role: Role, seam: Seam, *, force: bool) -> Signer:
        private, public = self.folder / f"{role}.priv", self.folder / f"{role}.pub"
        old = self._public(role)
        if (self._there(role) or old is not None) and not force:
            raise KeyProblem(f"{private} or its public half exists; give --force to replace it")
        if old is not None:
            place = self.folder / _FOLDERS[role]
            governed_make_dir(seam, place, point="keys.folder")
            governed_write(seam, place / f"{key_id(old)}.pub", old, point="keys.keep", mode=0o644)
        seed = secrets.token_bytes(KEY_BYTES)
        signer = Signer.from_seed(seed)
        governed_write(seam, private, seed, point="keys.private", mode=PRIVATE_MODE)
        governed_write(seam, public, signer.public, point="keys.public", mode=0o644)
        return signer

    def _public(self, role: Role) -> bytes | None:
        path = self.folder / f"{role}.pub"
        return _read(path, PUBLIC_MODES, f"chmod 644 {path}")

    def _check_folder(self) -> None:
        if self.folder.is_symlink() or self.folder.exists():
            _check_dir(self.folder)


def _check_dir(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise KeyProblem(f"{path} is no folder (links are not followed); make it one")
    if found.st_mode & 0o022:
        raise KeyProblem(f"others may write in {path}; run `chmod go-w {path}`")
    _check_owner(path, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise KeyProblem(
            f"{path} belongs to user {found.st_uid}; run `chown {os.geteuid()} {path}`"
        )


def _read(path: Path, modes: frozenset[int], fix: str) -> bytes | None:
    """The 32 bytes of a key file, or None when there is none. Raises ``KeyProblem``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise KeyProblem(f"{path} is a link; put the file itself there") from None
        raise KeyProblem(f"can't read {path} ({error.strerror}); correct its rights") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise KeyProblem(f"{path} is no regular file; put the key itself there")
        mode = stat.S_IMODE(found.st_mode)
        if mode not in modes:
            raise KeyProblem(f"{path} has mode {mode:04o}; run `{fix}`")
        _check_owner(path, found)
        data = file.read(KEY_BYTES + 1)
    if len(data) != KEY_BYTES:
        raise KeyProblem(f"{path} holds no key of {KEY_BYTES} raw bytes; restore it")
    return data
