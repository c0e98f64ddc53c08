"""Draining what a session prints: for ever, in constant memory, masked before it is cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import threading
from typing import IO

from coven.redaction import Redactor

PIPE_BYTES = 1 << 20
CHUNK = 1 << 18

MARGIN = 32 * 1024
"""Kept in front of the tail while it is raw. A secret that the ring cut in half lies in here
and is dropped; nothing that we know how to mask is longer (a PEM key is about 13 KiB)."""


class Ring:
    """The last bytes of a stream."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._keep = size + MARGIN
        self._data = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._data += chunk[-self._keep :]
        if len(self._data) > 2 * self._keep:
            del self._data[: -self._keep]

    def tail(self, redactor: Redactor) -> str:
        """The end of the stream as masked text of at most the ring's size in bytes.

        Masking comes first. When the front was lost, the first ``MARGIN`` bytes of the masked
        text go too, since they may be the half of a secret that no pattern recognises.
        """
        raw = bytes(self._data[-self._keep :])
        text = redactor.text(raw.decode("utf-8", "replace").replace("\x00", "\ufffd"))
        encoded = text.encode("utf-8", "replace")
        if self.total > self._keep:
            encoded = encoded[MARGIN:]
        return encoded[-self._size :].decode("utf-8", "ignore")


class Drain:
    """Reads both pipes of a session on one thread until they close or :meth:`close` is called."""

    def __init__(self, stdout: IO[bytes], stderr: IO[bytes], size: int) -> None:
        self.stdout = Ring(size)
        self.stderr = Ring(size)
        self._selector = selectors.DefaultSelector()
        for pipe, ring in ((stdout, self.stdout), (stderr, self.stderr)):
            with contextlib.suppress(OSError):  # a smaller pipe only costs more wake-ups
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, ring)
        self._stop_read, self._stop_write = os.pipe()
        self._selector.register(self._stop_read, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="coven-drain", daemon=True)
        self._thread.start()

    @property
    def total(self) -> int:
        """Bytes read from both streams."""
        return self.stdout.total + self.stderr.total

    def close(self, patience_secs: float) -> None:
        """Wait for the pipes to end, then stop reading: somebody may hold them open for ever."""
        self._thread.join(patience_secs)
        os.write(self._stop_write, b"x")
        self._thread.join()
        for fd in (self._stop_read, self._stop_write):
            os.close(fd)
        self._selector.close()

    def _run(self) -> None:
        open_pipes = 2
        while open_pipes:
            for key, _ in self._selector.select():
                ring = key.data
                if ring is None:
                    self._read_rest()
                    return
                chunk = self._read(key.fd)
                if chunk == b"":
                    self._selector.unregister(key.fileobj)
                    open_pipes -= 1
                elif chunk:
                    ring.add(chunk)

    def _read_rest(self) -> None:
        """What is in the pipes now, at most one pipe full each."""
        for key in list(self._selector.get_map().values()):
            left = PIPE_BYTES
            while key.data is not None and left > 0 and (chunk := self._read(key.fd)):
                key.data.add(chunk)
                left -= len(chunk)

    @staticmethod
    def _read(fd: int) -> bytes | None:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""
