"""The steps of a registration: the form for GitHub, its answer, the files, the configuration.

Both front ends, the terminal and the page of the receiver, are thin over this.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlsplit

from coven.clock import Clock
from coven.errors import ConfigurationError, CovenError, GitHubError, Retry
from coven.governance.wire import Seam
from coven.settings.env import variable_of
from coven.settings.models import Settings
from coven.setup.choices import Choices
from coven.setup.convert import CODE_SECS, BadCode, convert
from coven.setup.manifest import manifest
from coven.setup.places import Pending, Places, Written
from coven.setup.toml_text import Change, NotMergeable, Value, merge

_FRESH = (
    "# Every key, with its default: docs/configuration.md. Check it with: coven-github doctor\n"
    "\n[github]\n\n[worker]\n"
    'env_allow = ["ANTHROPIC_API_KEY"]  # provider keys that sessions get\n'
)
_FAMILIAR_ID = re.compile(r"[^a-z0-9]+")


class SetupRefused(CovenError):
    """The answer does not belong to a registration that was begun here."""


@dataclass(frozen=True, slots=True)
class Form:
    """What the browser posts to GitHub: ``manifest`` is the field's value."""

    action: str
    manifest: str


@dataclass(frozen=True, slots=True)
class Done:
    """A finished registration. ``notes``: what is left to do by hand; never a secret."""

    written: Written
    config: str
    install_url: str
    notes: tuple[str, ...]


class Setup:
    """One registration after the other. Safe for threads."""

    def __init__(
        self, places: Places, seam: Seam, clock: Clock, environ: Mapping[str, str]
    ) -> None:
        self.places = places
        self._seam = seam
        self._clock = clock
        self._environ = environ
        self._lock = threading.Lock()
        self._pending: Pending | None = None

    def begin(self, choices: Choices, redirect_url: str) -> Form:
        """The form that registers the App; only the newest one begun is answered.

        Raises ``ConfigurationError`` when the result could not be kept.
        """
        with self._lock:
            self.places.prepare()
            _check_mergeable(self.places, choices)
            pending = Pending(choices, secrets.token_urlsafe(32), self._clock.now())
            self.places.remember(pending)
            self._pending = pending
            document = manifest(
                name=choices.name,
                grants=choices.grants,
                redirect_url=redirect_url,
                public_url=choices.public_url,
                webhook_url=choices.deliveries_to,
            )
            return Form(choices.form_url(pending.state), json.dumps(document))

    def finish(self, code: str, state: str) -> Done:
        """Take GitHub's answer. It counts once, within the hour, and with our own ``state``.

        Raises ``SetupRefused``, ``BadCode``, ``GitHubError`` (the same answer may be given
        again) and ``ConfigurationError``.
        """
        with self._lock:
            pending = self._pending
            if pending is None or not hmac.compare_digest(pending.state.encode(), state.encode()):
                raise SetupRefused(
                    "setup: this answer belongs to no registration that was begun here, or it was "
                    "given before; start again with `coven-github setup`"
                )
            return self._convert(pending, code)

    def resume(self, answer: str) -> Done:
        """Go on with a code, or with the whole address that GitHub led back to.

        Raises as :meth:`finish`.
        """
        with self._lock:
            pending = self.places.pending()
            if pending is None:
                raise SetupRefused(
                    f"setup: nothing is under way beside {self.places.config}; name that file with "
                    "--config, or start again with `coven-github setup`"
                )
            code, state = _code_and_state(answer)
            if state is not None and not hmac.compare_digest(
                pending.state.encode(), state.encode()
            ):
                raise SetupRefused(
                    "setup: this address answers another registration than the one begun last; "
                    "start again with `coven-github setup`"
                )
            self.places.prepare()
            return self._convert(pending, code)

    def unfinished(self) -> Pending | None:
        """A registration whose App and key are there, but not the configuration."""
        pending = self.places.pending()
        return pending if pending is not None and pending.written is not None else None

    def complete(self, pending: Pending) -> Done:
        """Write the configuration of an unfinished registration. Raises ``ConfigurationError``."""
        with self._lock:
            return self._configure(pending)

    def _convert(self, pending: Pending, code: str) -> Done:
        if (self._clock.now() - pending.started_at).total_seconds() > CODE_SECS:
            self._end()
            raise BadCode(
                "setup: more than an hour has passed since this was begun; start again with "
                "`coven-github setup`"
            )
        try:
            app = convert(pending.choices.site, code, self._seam, self._clock)
        except GitHubError as error:
            if error.retry is Retry.NEVER:
                self._end()
            raise
        try:
            written = self.places.store(app, secrets.token_hex(32))
        except OSError as error:
            self._end()
            raise ConfigurationError(
                f"setup: the App {app.slug} is registered, but its key could not be written "
                f"({error.strerror}); make room, generate a new private key on {app.html_url} and "
                "fill in coven-github.toml by hand"
            ) from None
        pending = replace(pending, written=written)
        self.places.remember(pending)
        return self._configure(pending)

    def _configure(self, pending: Pending) -> Done:
        written = pending.written
        assert written is not None
        self._pending = None
        text = self.places.config_text()
        notes = []
        changes = changes_for(self.places, pending.choices, written, fresh=text is None)
        before = _FRESH if text is None else text
        familiars = _familiars(before)
        tables = () if familiars else (("familiars", familiar_for(written)),)
        self.places.write_config(merge(before, changes, tables))
        self.places.forget()
        if familiars and written.bot_login not in familiars:
            notes.append(f'set familiars[].bot_username = "{written.bot_login}" for this App')
        if written.made_secret:
            notes.append(
                f"GitHub gave no webhook secret: copy the one in {written.webhook_secret_path} "
                "into the App's page"
            )
        if pending.choices.deliveries_to is None:
            notes.append(
                "the webhook is off until this server has a public address: then set URL and "
                '"Active" on the App\'s page (docs/getting-started.md)'
            )
        for name in ("app_id", "client_id", "private_key", "private_key_path", "webhook_secret"):
            variable = variable_of(f"github.{name}")
            if self._environ.get(variable, "").strip():
                notes.append(f"{variable} is set and wins over the file: remove it")
        return Done(
            written,
            str(self.places.config),
            f"{written.html_url}/installations/new",
            tuple(notes),
        )

    def _end(self) -> None:
        self._pending = None
        self.places.forget()


def configured_app(text: str | None) -> int:
    """The App that a configuration names; 0 for none. Raises ``NotMergeable``."""
    if text is None:
        return 0
    try:
        github = tomllib.loads(text).get("github", {})
    except tomllib.TOMLDecodeError as error:
        raise NotMergeable(
            f"setup: the configuration is no TOML ({error}); correct it first"
        ) from None
    found = github.get("app_id", 0) if isinstance(github, dict) else 0
    return found if isinstance(found, int) else 0


def names_app(settings: Settings) -> bool:
    """Whether a configuration names an App, or any part of one."""
    github = settings.github
    parts = (github.client_id, github.private_key, github.private_key_path)
    return bool(github.app_id or any(parts) or github.active_webhook_secrets())


def changes_for(places: Places, choices: Choices, written: Written, *, fresh: bool) -> list[Change]:
    """What the configuration has to say about the new App."""
    client = written.client_secret_path
    site = choices.site
    found = [
        Change("github", "app_id", written.app_id),
        Change("github", "client_id", written.client_id or None),
        Change("github", "private_key_path", places.shown(written.key_path)),
        Change("github", "webhook_secret_file", places.shown(written.webhook_secret_path)),
        Change("github", "client_secret_file", None if client is None else places.shown(client)),
        Change("github", "api_base_url", None if site.is_dotcom else site.api),
        Change("github", "html_base_url", None if site.is_dotcom else site.html),
    ]
    for key in ("private_key", "private_key_file", "webhook_secret", "client_secret"):
        found.append(Change("github", key, None))
    if choices.public_url is not None:
        found.append(Change("server", "public_url", choices.public_url))
    if fresh:
        found.append(Change("review", "familiar", str(familiar_for(written)["id"])))
        found.append(Change("review", "pull_request", True))
    return found


def familiar_for(written: Written) -> dict[str, Value]:
    """The familiar that speaks through the new App."""
    short = written.slug.casefold().removesuffix("-familiar")
    name = _FAMILIAR_ID.sub("-", short).strip("-")[:39].strip("-") or "familiar"
    return {
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "bot_username": written.bot_login,
        "trigger_labels": (f"{name}:fix",),
    }


def _check_mergeable(places: Places, choices: Choices) -> None:
    """Raises ``ConfigurationError`` now rather than when the App is there already."""
    text = places.config_text()
    if text is None:
        return
    trial = Written(
        1, "a", "b", "", places.secrets_dir / "k", places.secrets_dir / "h", places.secrets_dir
    )
    try:
        merge(text, changes_for(places, choices, trial, fresh=False))
    except NotMergeable as error:
        raise NotMergeable(
            f"{error}: {places.config}; write each key on a line of its own below [github], or "
            "choose another file with --config"
        ) from None


def _familiars(text: str) -> set[str]:
    listed = tomllib.loads(text).get("familiars", [])
    return {str(f.get("bot_username")) for f in listed if isinstance(f, dict)}


def _code_and_state(answer: str) -> tuple[str, str | None]:
    text = answer.strip()
    if "?" not in text:
        return text, None
    query = parse_qs(urlsplit(text).query)
    return query.get("code", [""])[0], query.get("state", [""])[0]
