"""Git as a guest: every call gets an environment built from nothing and a time limit.

The token travels in the environment only (``GIT_CONFIG_*``), bound to one repository URL. It is
never in argv, in a URL or in a configuration file. Sources: git-config(1), git(1), and
``docs/workspace.md`` for the reasons behind each setting.
"""

from __future__ import annotations

import base64
import contextlib
import os
import resource
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from coven.clock import Clock
from coven.errors import ConfigurationError, WorkspaceError, WorkspaceUnavailable
from coven.governance.wire import Seam, governed_request, governed_spawn
from coven.redaction import Redactor
from worker.runtime.backend import SESSION, SUPERVISOR
from worker.runtime.orphans import supervisor_mark
from worker.workspace.errors import CheckoutStopped, TooBig, classify

PATH = "/usr/local/bin:/usr/bin:/bin"
OUTPUT_LIMIT = 64 * 2**20
STDERR_LIMIT = 64 * 1024
_POLL_SECS = 0.1
_CHUNK = 64 * 1024

Pairs = Sequence[tuple[str, str]]

# Old honest repositories hold these; none of them can harm a reader. By name, never "all off".
_TOLERATED_FSCK = (
    "zeroPaddedFilemode",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingNameBeforeEmail",
    "badTimezone",
    "badDateOverflow",
    "zeroPaddedDate",
    "badEmail",
    "badName",
    "nulInCommit",
    "missingTaggerEntry",
    "gitattributesLineLength",
)

_CONFIG: Pairs = (
    ("credential.helper", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "/bin/false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.quotePath", "false"),
    ("core.fsyncMethod", "batch"),
    ("protocol.version", "2"),
    ("transfer.fsckObjects", "true"),
    ("fetch.fsckObjects", "true"),
    ("receive.fsckObjects", "true"),
    *((f"fetch.fsck.{name}", "ignore") for name in _TOLERATED_FSCK),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "30"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("advice.detachedHead", "false"),
    ("init.defaultBranch", "main"),
    ("safe.bareRepository", "explicit"),
    ("filter.lfs.smudge", ""),
    ("filter.lfs.clean", ""),
    ("filter.lfs.process", ""),
    ("filter.lfs.required", "false"),
)


_PROXY_NAMES = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY")
_CA_NAMES = ("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def proxy_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """How to reach the network, out of the worker's own environment.

    The same variables steer our HTTP requests; the first certificate bundle named is git's. This
    machine itself is never reached through a proxy.
    """
    found: dict[str, str] = {}
    for name in _PROXY_NAMES:
        value = environ.get(name) or environ.get(name.lower())
        if value:
            found |= {name: value, name.lower(): value}
    if found:
        local = ",".join(filter(None, [found.get("NO_PROXY"), "127.0.0.1,localhost,::1"]))
        found |= {"NO_PROXY": local, "no_proxy": local}
    bundle = next((environ[name] for name in _CA_NAMES if environ.get(name)), None)
    return found | ({"GIT_SSL_CAINFO": bundle} if bundle else {})


@dataclass(frozen=True, slots=True)
class GitOutput:
    """What one call gave back; ``cut`` when output above the limit was thrown away."""

    code: int
    stdout: bytes
    stderr: str
    cut: bool = False


def protocols_for(base_url: str) -> tuple[str, ...]:
    """The transports that ``base_url`` needs. Raises ``ConfigurationError``.

    Plain ``http`` is for this machine only, where the sandbox lives.
    """
    parts = urlsplit(base_url)
    if parts.username or parts.password:
        raise ConfigurationError("github.html_base_url: must not hold credentials")
    if parts.scheme == "https" and parts.hostname:
        return ("https",)
    if parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        return ("http",)
    raise ConfigurationError(
        "github.html_base_url: code is fetched over https:// only (http:// for this machine)"
    )


def authorization(token: str) -> str:
    """The header that GitHub takes for git over HTTP with an installation token."""
    return "Authorization: Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def hardened_environment(
    home: Path, protocols: Iterable[str], pairs: Pairs = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The complete environment of a git call; nothing of this process is inherited."""
    chosen = tuple(protocols)
    config = [
        *_CONFIG,
        ("protocol.allow", "never"),
        *((f"protocol.{name}.allow", "always") for name in chosen),
        *pairs,
    ]
    env = {
        "PATH": PATH,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "/bin/false",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(chosen),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ADVICE": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for index, (key, value) in enumerate(config):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env | dict(extra or {})


class Git:
    """Runs git. One per worker process; holds no state between calls."""

    def __init__(
        self,
        seam: Seam,
        home: Path,
        allow_protocols: tuple[str, ...] = ("https",),
        *,
        clock: Clock,
        redactor: Redactor,
        proxy_env: Mapping[str, str] | None = None,
        swept_below: Path | None = None,
    ) -> None:
        """``home`` is an empty folder of ours; ``proxy_env`` adds proxy or CA variables.

        ``swept_below``: the folder whose sweep (:func:`worker.runtime.orphans.sweep_orphans`) also
        ends git processes of a worker that was killed.
        """
        self._seam = seam
        self._home = home
        self._protocols = allow_protocols
        self._clock = clock
        self._redactor = redactor
        self._proxy_env = dict(proxy_env or {})
        self._swept_below = swept_below

    def run(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        timeout: float,
        token: str | None = None,
        host_url: str | None = None,
        stdin: bytes | None = None,
        **options: Any,
    ) -> bytes:
        """Standard output of a call that must succeed; options as in :meth:`call`.

        Raises ``WorkspaceError`` (or the subclass that git's words stand for) with redacted text.
        """
        out = self.call(
            args,
            cwd=cwd,
            timeout=timeout,
            token=token,
            host_url=host_url,
            stdin=stdin,
            **options,
        )
        if out.code != 0:
            raise failure(args, out)
        return out.stdout

    def call(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        timeout: float,
        token: str | None = None,
        host_url: str | None = None,
        stdin: bytes | None = None,
        git_dir: Path | None = None,
        work_tree: Path | None = None,
        config: Pairs = (),
        env: Mapping[str, str] | None = None,
        stop: Callable[[], bool] | None = None,
        watch: Callable[[], str | None] | None = None,
        output_limit: int = OUTPUT_LIMIT,
        cut_output: bool = False,
        file_limit: int | None = None,
        point: str = "workspace.git",
    ) -> GitOutput:
        """One git call, whatever its exit code.

        ``host_url`` is the repository URL that the call talks to; the token is bound to it.
        ``stop`` and ``watch`` are asked about ten times a second: a true answer raises
        ``CheckoutStopped``, a text raises ``TooBig`` with it. Output above ``output_limit``
        raises ``TooBig``, or ends the call quietly with ``cut_output``. Raises
        ``WorkspaceUnavailable`` after ``timeout`` seconds.
        """
        pairs = list(config)
        redactor = self._redactor
        if token is not None:
            if host_url is None:
                raise ValueError("a token needs the URL that it is for")
            pairs.append((f"http.{host_url}.extraHeader", authorization(token)))
            redactor = redactor.with_live(token)
        extra = {**(self._proxy_env if host_url else {}), **(env or {})}
        # Never walk up into a repository that surrounds the state directory.
        extra["GIT_CEILING_DIRECTORIES"] = str(cwd.parent)
        pairs.append(("safe.directory", str(git_dir or cwd)))
        if git_dir is not None:
            extra["GIT_DIR"] = str(git_dir)
        if work_tree is not None:
            extra["GIT_WORK_TREE"] = str(work_tree)
        if self._swept_below is not None:
            # Inherited by git's helpers, so that a sweep finds those too.
            extra |= {SESSION: "git", SUPERVISOR: supervisor_mark(self._swept_below)}
        environment = hardened_environment(self._home, self._protocols, pairs, extra)

        def spawn_and_wait() -> GitOutput:
            try:
                process = governed_spawn(
                    self._seam,
                    ("git", *args),
                    point=point,
                    env=environment,
                    cwd=cwd,
                    stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    umask=0o077,
                )
            except OSError as error:
                raise WorkspaceUnavailable(f"git can't be started: {error.strerror}") from error
            if file_limit is not None and hasattr(resource, "prlimit"):
                _limit_files(process.pid, file_limit)
            talk = _Talk(process, stdin, output_limit, cut_output, stop, watch)
            return talk.to_the_end(self._clock, timeout, args, redactor)

        if host_url is None:
            return spawn_and_wait()
        return governed_request(
            self._seam, "GIT", host_url, spawn_and_wait, point=f"{point}.network"
        )

    def redacted(self, text: str, *live: str) -> str:
        """``text`` without secrets; ``live`` are values that must go as well."""
        return self._redactor.with_live(*live).text(text)


def failure(args: Sequence[str], out: GitOutput) -> WorkspaceError:
    """The typed error for a call that failed."""
    kind = classify(out.code, out.stderr)
    words = " ".join(out.stderr.split())[-600:] or f"exit code {out.code}"
    return kind(f"git {_verb(args)}: {words}")


class _Talk:
    """Feeds and drains one child until it ends, is told to stop, or runs out of time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],  # noqa: TID251 - the type, not a spawn
        stdin: bytes | None,
        limit: int,
        cut: bool,
        stop: Callable[[], bool] | None,
        watch: Callable[[], str | None] | None,
    ) -> None:
        self._process = process
        self._pending = memoryview(stdin or b"")
        self._limit = limit
        self._may_cut = cut
        self._stop = stop
        self._watch = watch
        self._out = bytearray()
        self._err = bytearray()
        self._cut = False

    def to_the_end(
        self, clock: Clock, timeout: float, args: Sequence[str], redactor: Redactor
    ) -> GitOutput:
        deadline = clock.monotonic() + timeout
        try:
            with selectors.DefaultSelector() as selector:
                self._register(selector)
                while selector.get_map() and not self._cut:
                    for key, _ in selector.select(_POLL_SECS):
                        self._serve(selector, key)
                    self._mind(clock, deadline, args)
            if self._cut:
                self._kill()
            while self._process.poll() is None:
                # Pipes are closed, so this is the last moment of the child or a hang of it.
                self._mind(clock, deadline, args)
                try:
                    self._process.wait(_POLL_SECS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            self._kill()
        return GitOutput(
            0 if self._cut else self._process.returncode,
            bytes(self._out),
            redactor.text(self._err.decode("utf-8", "replace")),
            self._cut,
        )

    def _register(self, selector: selectors.BaseSelector) -> None:
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
        if stream is self._process.stdin:
            self._feed(selector, stream)
            return
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            selector.unregister(stream)
            return
        if stream is self._process.stderr:
            self._err += data
            del self._err[:-STDERR_LIMIT]
            return
        room = self._limit - len(self._out)
        self._out += data[:room]
        if len(data) > room:
            if not self._may_cut:
                raise TooBig(f"git printed more than {self._limit} bytes")
            self._cut = True

    def _feed(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        try:
            if self._pending:
                self._pending = self._pending[os.write(stream.fileno(), self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pending = memoryview(b"")
        if not self._pending:
            selector.unregister(stream)
            stream.close()

    def _mind(self, clock: Clock, deadline: float, args: Sequence[str]) -> None:
        if self._stop is not None and self._stop():
            raise CheckoutStopped(f"git {_verb(args)}: stopped on request")
        if self._watch is not None and (problem := self._watch()) is not None:
            raise TooBig(f"git {_verb(args)}: {problem}")
        if clock.monotonic() >= deadline:
            raise WorkspaceUnavailable(f"git {_verb(args)}: no end within its time limit")

    def _kill(self) -> None:
        if self._process.poll() is None:
            # The whole group: git's helpers (index-pack, remote-https) live in it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _verb(args: Sequence[str]) -> str:
    return next((arg for arg in args if not arg.startswith("-")), "?")


def _limit_files(pid: int, size: int) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
    except (OSError, ValueError):
        # Already gone, or the platform has no such limit: the watcher still counts.
        return
