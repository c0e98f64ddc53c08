"""What the commands about rules share: their exit codes, the operator's desk, the ``--sign`` rule.

====  ===================================================================
exit  meaning
====  ===================================================================
0     done; the action is allowed
1     the answer is bad: an expectation of ``rules test`` does not hold, ...
2     refused, or waits for a person (what a hook needs)
3     wrong usage, a rule or configuration that can't be used, nothing there
4     ``governance.no_operator_key``: no key, a wrong mode, or no ``--sign``
5     chain or policy could not be verified
6     the database or the record can't be reached now
====  ===================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from coven.cli.context import opened_store
from coven.cli.output import complain, show_json
from coven.clock import SystemClock
from coven.errors import ConfigurationError, CovenError, GovernanceRefused, StoreUnavailable
from coven.governance.admin import Admin, NoSuchRule
from coven.governance.asking import Asker, ask
from coven.governance.audit import Recorder
from coven.governance.engine import Engine
from coven.governance.head import UNAVAILABLE, PolicyUnusable
from coven.governance.identity import KeyProblem
from coven.governance.policy import PolicyCorrupt
from coven.governance.shapes import InvalidMatcher
from coven.governance.world import Scope
from coven.redaction import Redactor
from coven.settings.loader import load_settings
from coven.settings.models import Settings

DONE, BAD, REFUSED, USAGE, NO_KEY, UNVERIFIED, UNREACHABLE = range(7)

# Typer carries its own copy of Click, whose base of all usage errors has no public name.
_UsageError: Any = typer.BadParameter.__mro__[1]


class Governed(TyperGroup):
    """Errors of these commands end with the codes above."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            error.exit_code = USAGE
            raise
        except CovenError as error:
            complain(_coded(error))
            raise typer.Exit(code_of(error)) from error


def _coded(error: CovenError) -> str:
    """What went wrong, beginning with its code. Pure."""
    code = str(getattr(error, "code", ""))
    text = str(error)
    return f"{code}: {text}" if code.startswith("governance.") and code not in text else text


def code_of(error: CovenError) -> int:
    """The exit code of an error. Pure."""
    if isinstance(error, KeyProblem):
        return NO_KEY
    if isinstance(error, InvalidMatcher | NoSuchRule | ConfigurationError):
        return USAGE
    if isinstance(error, PolicyUnusable):
        return UNREACHABLE if error.code == UNAVAILABLE and error.__cause__ else UNVERIFIED
    if isinstance(error, PolicyCorrupt):
        return UNVERIFIED
    if isinstance(error, StoreUnavailable):
        return UNREACHABLE
    if isinstance(error, GovernanceRefused) and "audit_unavailable" in str(error):
        return UNREACHABLE
    return BAD


SignOption = Annotated[
    bool, typer.Option("--sign", help="Sign with operator.priv; needed for every change.")
]
KeyDirOption = Annotated[
    Path | None,
    typer.Option("--key-dir", metavar="DIR", help="Folder of the keys, instead of the setting."),
]


def require_sign(sign: bool, words: str) -> None:
    """Raise ``KeyProblem`` unless the operator said that they sign."""
    if not sign:
        raise KeyProblem(f"rules change only when the operator signs; add --sign: {words} --sign")


def settings_with(config: Path | None, key_dir: Path | None) -> Settings:
    """The settings, with another key folder if one is named."""
    settings = load_settings(config)
    if key_dir is None:
        return settings
    changed = settings.governance.model_copy(update={"key_dir": key_dir})
    return settings.model_copy(update={"governance": changed})


@contextmanager
def desk(config: Path | None, key_dir: Path | None = None) -> Iterator[Admin]:
    """The operator's desk over the ledgers. The operator's own commands pass no gate."""
    settings = settings_with(config, key_dir)
    with opened_store(config) as store:
        engine = Engine.of(settings, store, SystemClock())
        yield Admin(engine, Recorder(store, engine.keys.service()))


def ask_one(
    config: Path | None,
    action: Mapping[str, Any],
    scope: Scope,
    agent: str,
    as_json: bool,
) -> NoReturn:
    """Ask about one action, on record; print the answer and end with 0 or 2."""
    with desk(config) as admin:
        asker = Asker(f"cli:{agent}", "cli.check")
        answer = ask(admin.engine, admin.recorder, Redactor(), action, scope, asker)
    if as_json:
        show_json(answer.json())
    else:
        decision = answer.decision
        word = decision.verdict.value.capitalize()
        print(f"{word}: {decision.rule_id} — {decision.reason}" if decision.rule_id else word)
    raise typer.Exit(REFUSED if answer.decision.is_blocking else DONE)


def envelope(verb: str, result: object) -> dict[str, object]:
    """The JSON form of an answer."""
    return {"verb": verb, "result": result}


def json_object(option: str, text: str) -> Any:
    """An option's JSON object. Raises ``InvalidMatcher``."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidMatcher(f"{option}: this is not JSON ({error}); send one object") from None
    if not isinstance(value, dict):
        raise InvalidMatcher(f"{option}: this is no JSON object; send one")
    return value
