"""Finding, reading and checking the configuration.

Order of finding: the path given on the command line, ``COVEN_GITHUB_CONFIG``,
``./coven-github.toml``, else the defaults of the models. Environment variables are laid over the
file. Relative paths start at the folder of the file; without one, at the current folder.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from coven.github.urls import api_root
from coven.settings.defaults import (
    CONFIG_FILE,
    ENV_CONFIG,
    MAX_CONFIG_BYTES,
    default_state_dir,
)
from coven.settings.env import overlay
from coven.settings.models import Settings
from coven.settings.problems import InvalidConfiguration, Problem
from coven.settings.resolve import Resolver
from coven.settings.secret_key import resolve_secret_key

__all__ = [
    "InvalidConfiguration",
    "Loaded",
    "Problem",
    "load",
    "load_settings",
    "resolve_secret_key",
]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was read. ``settings`` leaves out the keys named by ``problems``; None when nothing
    usable is left. ``source`` is the file, None when there is none."""

    settings: Settings | None
    problems: tuple[Problem, ...]
    source: Path | None
    unreadable: bool = False


def load_settings(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """The configuration of this process. Raises ``InvalidConfiguration`` with every problem."""
    loaded = load(config, environ, cwd)
    if loaded.problems or loaded.settings is None:
        raise InvalidConfiguration(loaded.problems, unreadable=loaded.unreadable)
    return loaded.settings


def load(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Loaded:
    """Like :func:`load_settings`, but returns the problems beside what is usable (the doctor)."""
    environment = os.environ if environ is None else environ
    here = (cwd or Path.cwd()).absolute()
    try:
        source = _find(config, environment, here)
        raw = _parse(source) if source is not None else {}
    except InvalidConfiguration as error:
        return Loaded(None, error.problems, None, unreadable=error.unreadable)
    base = source.parent if source is not None else here
    merged, problems = overlay(raw, environment)
    resolver = Resolver(base)
    data = resolver.resolve(merged)
    problems += resolver.problems
    _fill_in(data, base, environment)
    settings, invalid = _validate(data)
    return Loaded(settings, (*problems, *invalid), source)


def _find(config: Path | None, environ: Mapping[str, str], here: Path) -> Path | None:
    named = environ.get(ENV_CONFIG, "").strip()
    if config is None and not named:
        beside = here / CONFIG_FILE
        return beside if beside.is_file() else None
    path = here / (config if config is not None else Path(named))
    if not path.is_file():
        key = "--config" if config is not None else ENV_CONFIG
        raise _unreadable(key, f"there is no file {path}", "correct the path, or create the file")
    return path


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise _unreadable(
            str(path), f"can't be read ({error.strerror})", "let the user of this process read it"
        ) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise _unreadable(str(path), f"is larger than {MAX_CONFIG_BYTES} bytes", "correct the path")
    try:
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise _unreadable(str(path), "is not UTF-8 text", "save it as UTF-8") from None
    except RecursionError:
        raise _unreadable(str(path), "is nested too deeply", "simplify it") from None
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(
            str(path), f"is no valid TOML: {_where(error)}", "correct that line"
        ) from None


def _where(error: tomllib.TOMLDecodeError) -> str:
    # Only the position: the parser's words may quote what stands there, such as a secret.
    text = str(error)
    start = text.rfind("(at ")
    return text[start + 1 : -1] if start >= 0 else "it can't be parsed"


def _unreadable(key: str, problem: str, next_step: str) -> InvalidConfiguration:
    return InvalidConfiguration([Problem(key, problem, next_step)], unreadable=True)


def _fill_in(data: dict[str, Any], base: Path, environ: Mapping[str, str]) -> None:
    """Defaults that depend on other values or on the place."""
    server = data.setdefault("server", {})
    if isinstance(server, dict) and "state_dir" not in server:
        server["state_dir"] = str(default_state_dir(base, environ))
    github = data.get("github")
    if isinstance(github, dict) and isinstance(github.get("api_base_url"), str):
        try:
            github["api_base_url"] = api_root(github["api_base_url"])
            html = _web_base(github["api_base_url"])
        except ValueError:
            return  # no URL at all: validation says so
        if html is not None:
            github.setdefault("html_base_url", html)
    storage = data.get("storage")
    if isinstance(storage, dict) and isinstance(storage.get("database_url"), str):
        storage["database_url"] = _with_driver(storage["database_url"])


def _with_driver(url: str) -> str:
    # Hosting platforms hand out these two forms; SQLAlchemy would look for another driver.
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            return f"postgresql+psycopg://{url.removeprefix(prefix)}"
    return url


def _web_base(api: str) -> str | None:
    """Where people look at what is behind an API root; None for github.com and this machine."""
    parts = urlsplit(api)
    host = parts.netloc.rpartition("@")[2].removeprefix("api.")
    return f"https://{host}" if parts.scheme == "https" and host != "github.com" else None


def _validate(data: dict[str, Any]) -> tuple[Settings | None, list[Problem]]:
    """Validate; on errors drop what is wrong and try again, so that the rest can be looked at."""
    problems: list[Problem] = []
    for _ in range(8):
        try:
            # JSON mode is strict about types, yet takes a list as a tuple and a text as a path.
            return Settings.model_validate_json(json.dumps(data), strict=True), problems
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            problems += [_problem(tuple(e["loc"]), e["type"], e["msg"]) for e in found]
            for trail in sorted({_useless(data, tuple(e["loc"])) for e in found}, key=_order):
                _drop(data, trail)
        except (TypeError, ValueError, RecursionError):
            problems.append(
                Problem("configuration", "holds a value of no known kind", "simplify it")
            )
            return None, problems
    return None, problems


def _order(trail: tuple[int | str, ...]) -> list[tuple[int, str]]:
    # Later array items first, so that dropping one does not move the others.
    return [(-step, "") if isinstance(step, int) else (0, step) for step in trail]


def _useless(data: Any, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """What has to go when ``loc`` is wrong: a key, or the whole item of an array around it."""
    trail: list[int | str] = []
    in_list = 0
    node = data
    for step in loc:
        inside_list = isinstance(node, list) and isinstance(step, int) and step < len(node)
        if not inside_list and not (isinstance(node, dict) and step in node):
            break
        node = node[step]
        trail.append(step)
        in_list = len(trail) if inside_list else in_list
    return tuple(trail[: in_list or None])


def _drop(data: Any, trail: tuple[int | str, ...]) -> None:
    if not trail:
        return
    node = data
    for step in trail[:-1]:
        node = node[step]
    del node[trail[-1]]


def _problem(loc: tuple[int | str, ...], kind: str, message: str) -> Problem:
    key = ""
    for step in loc:
        if isinstance(step, int):
            key += f"[{step}]"
        elif "/" in step:
            key += f'."{step}"'
        else:
            key += f".{step}" if key else step
    if kind == "missing":
        return Problem(key, "is missing", "add it")
    text = message.removeprefix("Value error, ").replace("Input should be", "must be")
    text = text.replace("String should match pattern", "must match").replace(
        "String should have", "must have"
    )
    return Problem(key, text[:1].lower() + text[1:], "correct the value")
