"""``governance``: bring rules to life, see how they stand, decide, and prove the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from coven.cli import ledger
from coven.cli.check_action import check_action, hook_app, hook_command
from coven.cli.context import ConfigOption, JsonOption
from coven.cli.governed import (
    BAD,
    UNVERIFIED,
    USAGE,
    Governed,
    KeyDirOption,
    SignOption,
    desk,
    envelope,
    require_sign,
)
from coven.cli.output import complain, plain, show_json, show_pairs, show_table
from coven.errors import CovenError
from coven.escalating import Decided, Decider, Grounds, Refusal, decide_in
from coven.governance import defaults
from coven.governance.admin import Admin, audit_keys
from coven.governance.admin import status as status_of
from coven.governance.audit import (
    Anchor,
    Event,
    Report,
    anchor_of,
    export,
    imported,
    redacted,
    verify,
    verify_store,
)
from coven.governance.hook_settings import Hook
from coven.governance.seeds import SEEDS
from coven.governance.wire import Seam, governed_make_dir, governed_write
from coven.redaction import Redactor
from coven.store import chain, escalations
from coven.store.engine import Store
from coven.store.escalations import Escalation, Status

app = typer.Typer(
    cls=Governed,
    help="Bring rules to life, see how they stand, decide what waits, and prove the record.",
    no_args_is_help=True,
    epilog="Exit codes: 0 done or allowed, 1 the answer is bad, 2 refused or escalated, 3 wrong "
    "usage, 4 no operator key, 5 not verified, 6 not reachable now.",
)
escalations_app = typer.Typer(cls=Governed, help="What waits for a person.", no_args_is_help=True)
audit_app = typer.Typer(
    cls=Governed, help="Prove, export and anchor the record.", no_args_is_help=True
)
app.command("check-action")(check_action)
app.add_typer(hook_app, name="hook", cls=Governed)
app.add_typer(escalations_app, name="escalations")
app.add_typer(audit_app, name="audit")


@app.command("install-defaults")
def install_defaults(
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="This rule; repeatable.")
    ] = None,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enable the shipped rules and sign all of them, in one transaction."""
    if as_json and not yes:
        raise typer.BadParameter("--json can't ask; add --yes")
    chosen = tuple(only or ())
    with desk(config, key_dir) as admin:
        if not yes:
            _preview(admin, chosen)
            if not typer.confirm("Proceed?", default=False):
                print("Nothing was changed.")
                raise typer.Exit(BAD)
        done = defaults.install_defaults(admin, chosen)
    if as_json:
        show_json(done.as_json())
    else:
        for name in ("activated", "already_enabled", "missing", "resigned", "repaired"):
            ids = getattr(done, name)
            if ids:
                print(f"{name.replace('_', ' ')}: {', '.join(ids)}")
        for bad in done.not_enforced:
            complain(f"{bad['id']} is not enforced: {bad['enforcement_state']}")
        if not done.signed:
            print("Nothing is signed: governance.mode is unsigned-dev and there is no key.")
        if not done.not_enforced:
            print(f"{len(done.enforced)} shipped rules are enforced.")
    raise typer.Exit(UNVERIFIED if done.not_enforced else 0)


@app.command()
def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Whether the rules can be trusted, and how many are enforced. Exit 0 or 5."""
    with desk(config) as admin:
        facts = status_of(admin.engine)
        with admin.engine.store.read() as tx:
            waiting = sum(1 for _ in ledger.open_escalations(tx, None, (Status.PENDING,), 1_000))
    facts["escalations_pending"] = waiting
    if as_json:
        show_json(envelope("governance.status", facts))
    else:
        shown = facts | {"audit_head": (facts["audit_head"] or "")[:16] or None}
        show_pairs(
            (
                key.replace("_", " "),
                ", ".join(value) or "none" if isinstance(value, list) else value,
            )
            for key, value in shown.items()
        )
        if not facts["enabled"]:
            print("Next: nothing is enforced; set governance.enabled = true.")
    raise typer.Exit(0 if facts["ok"] else UNVERIFIED)


@app.command("serve-mcp")
def serve_mcp(
    agent_id: Annotated[str, typer.Option("--agent-id", help="Who asks, for the record.")] = "mcp",
    namespace: Annotated[str, typer.Option(help="As a task of this namespace.")] = "_global",
    matchers: Annotated[
        bool, typer.Option("--expose-matchers", help="Also show agents what rules match.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Answer agents over MCP on standard input and output: they may ask, never change."""
    from coven.governance.mcp import serve  # its libraries are large, and needed here only

    with desk(config) as admin:
        serve(admin.engine, admin.recorder, f"mcp:{agent_id}", namespace, matchers=matchers)


@hook_app.command("install")
def install_hook(
    settings: Annotated[Path, typer.Argument(help="settings.json of the harness.")],
    harness: Annotated[str, typer.Option(help="claude-code or coven-code.")] = "claude-code",
    config: ConfigOption = None,
) -> None:
    """Put the hook into a harness's settings; other settings stay as they are."""
    if harness not in ("claude-code", "coven-code"):
        raise typer.BadParameter("choose claude-code or coven-code")
    wanted = json.loads(Hook.settings(hook_command(), harness))  # type: ignore[arg-type]
    before = _settings_file(settings)
    after = _with_hook(before, wanted)
    seam = Seam()
    if after == before:
        print(f"The hook is in {settings} already.")
        return
    governed_make_dir(seam, settings.parent, point="cli.hook")
    text = json.dumps(after, indent=2) + "\n"
    governed_write(seam, settings, text.encode(), point="cli.hook")
    with desk(config) as admin:
        facts = {"settings": str(settings), "harness": harness}
        event = Event("governance.hook_installed", redacted(Redactor(), facts), "operator")
        admin.recorder.commit([event], admin.engine.clock.now())
    print(f"The hook is in {settings}.")
    print(f"Next: coven-github governance hook verify {settings}")


@escalations_app.command("list")
def list_escalations(
    installation: Annotated[int | None, typer.Option(help="Of this installation only.")] = None,
    state: Annotated[
        Status | None, typer.Option("--status", help="In this state; pending if not said.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 50,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits for a person, newest first; --status lists what was decided."""
    with desk(config) as admin, admin.engine.store.read() as tx:
        states = (state or Status.PENDING,)
        found = list(ledger.open_escalations(tx, installation, states, limit))
    if as_json:
        facts = [_facts(each) for each in found]
        show_json(envelope("governance.escalations", {"count": len(facts), "escalations": facts}))
        return
    show_table(
        ["ID", "STATUS", "RULE", "ACTION", "TASK", "INSTALLATION", "EXPIRES"],
        [
            (
                each.id,
                each.status,
                each.rule_id,
                plain(each.action_redacted)[:120],
                each.task_id,
                each.installation_id,
                each.expires_at,
            )
            for each in found
        ],
        "No such escalations." if state else "Nothing waits for a person.",
    )


@escalations_app.command()
def approve(
    escalation_id: Annotated[str, typer.Argument(metavar="ID", help="As E-….")],
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let exactly this action happen, once; its task goes on."""
    _decide(escalation_id, True, sign, key_dir, config, as_json)


@escalations_app.command()
def deny(
    escalation_id: Annotated[str, typer.Argument(metavar="ID", help="As E-….")],
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let it not happen; its task ends."""
    _decide(escalation_id, False, sign, key_dir, config, as_json)


@audit_app.command("verify")
def verify_audit(
    since: Annotated[
        str | None, typer.Option(metavar="SEQ|TIME", help="Begin after this row or time.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="File of anchors, one JSON per line."),
    ] = None,
    exported: Annotated[
        Path | None,
        typer.Option("--export", exists=True, dir_okay=False, help="Prove this file instead."),
    ] = None,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that no row was changed, removed or added. Exit 0 or 5."""
    with desk(config, key_dir) as admin:
        keys = audit_keys(admin.engine)
        anchors = _anchors(anchor)
        if exported is not None:
            with exported.open(encoding="utf-8") as lines:
                rows = list(imported(lines))
            head = (rows[-1]["sequence"], rows[-1]["row_hash"]) if rows else None
            report = verify(rows, head, keys, since=_number(since), anchors=anchors)
        else:
            after = _since(admin.engine.store, since)
            report = verify_store(admin.engine.store, keys, since=after, anchors=anchors)
            report.policy_head_ok = _policy_holds(admin)
    if as_json:
        show_json(report.as_json())
    else:
        _told(report)
    raise typer.Exit(0 if report.ok else UNVERIFIED)


@audit_app.command("export")
def export_audit(
    since: Annotated[
        str | None, typer.Option(metavar="SEQ|TIME", help="Begin after this row or time.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Print every row as one JSON line: enough to prove the record elsewhere."""
    with desk(config) as admin, admin.engine.store.read() as tx:
        for line in export(chain.rows(tx, _since_in(tx, since))):
            print(line)


@audit_app.command("anchor")
def anchor_audit(config: ConfigOption = None) -> None:
    """Print the present head as one signed JSON line, to be kept where nobody here can write."""
    with desk(config) as admin:
        found = anchor_of(admin.engine.store, admin.recorder.signer)
    if found is None:
        complain("the record is empty; there is nothing to anchor yet")
        raise typer.Exit(BAD)
    print(json.dumps(found, sort_keys=True))


def _preview(admin: Admin, only: tuple[str, ...]) -> None:
    counts = defaults.would_have_blocked(admin.engine, only)
    show_table(
        ["ID", "SEVERITY", "KIND", "REASON", f"OF THE LAST {defaults.RECENT}"],
        [
            (seed.id, seed.severity, seed.kind, seed.reason, counts[seed.id])
            for seed in SEEDS
            if seed.id in counts
        ],
        "No shipped rule has such an id.",
    )
    print(f"The last column: how many of the last {defaults.RECENT} actions each would match.")


def _decide(
    escalation_id: str,
    yes: bool,
    sign: bool,
    key_dir: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    verb = "approve" if yes else "deny"
    require_sign(sign, f"coven-github governance escalations {verb} {escalation_id[:20]}")
    with desk(config, key_dir) as admin:
        signer = admin.engine.keys.signer("operator")
        name = escalations.parse_id(escalation_id)
        with admin.engine.store.read() as tx:
            tenant = ledger.tenant_of_escalation(tx, name) if name else None
        if tenant is None or name is None:
            complain(
                f"there is no escalation {escalation_id[:20]}; "
                "see `coven-github governance escalations list`"
            )
            raise typer.Exit(USAGE)
        grounds = Grounds(admin.engine.settings, admin.engine.clock, admin.recorder)
        by = Decider(f"operator:{signer.key_id}")
        with admin.engine.store.write("cli.escalation") as tx:
            decided = decide_in(grounds, tenant, tx, name, yes, by)
    _said(decided, verb, as_json)


def _said(decided: Decided, verb: str, as_json: bool) -> None:
    found = decided.escalation
    if found is None or decided.refused is not None:
        why = found.status if decided.refused is Refusal.OVER and found else decided.refused
        complain(f"nothing was changed: it is {why}; see `governance escalations list`")
        raise typer.Exit(BAD)
    if as_json:
        show_json(envelope(f"governance.escalations.{verb}", _facts(found)))
        return
    then = (
        "its task goes on within seconds" if verb == "approve" else "its task ends within seconds"
    )
    print(f"{found.id} is {found.status}; {then}.")


def _facts(found: Escalation) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Escalation.__dataclass_fields__}


def _settings_file(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        complain(f"{path} can't be read ({error}); correct it first")
        raise typer.Exit(USAGE) from None
    if not isinstance(value, dict):
        complain(f"{path} holds no JSON object; correct it first")
        raise typer.Exit(USAGE)
    return value


def _with_hook(before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings with the wanted ones merged in; lists are added to. Pure."""
    merged = dict(before)
    for key, value in wanted.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = _with_hook(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            merged[key] = [*(item for item in value if item not in old), *old]
        else:
            merged[key] = value
    return merged


def _anchors(path: Path | None) -> Iterator[Anchor]:
    if path is None:
        return
    with closing(path.open(encoding="utf-8")) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield Anchor.parse(line)
                except (ValueError, KeyError, TypeError) as error:
                    complain(f"{path}:{number}: this is no anchor ({error})")
                    raise typer.Exit(USAGE) from None


def _since(store: Store, since: str | None) -> int:
    with store.read() as tx:
        return _since_in(tx, since)


def _since_in(tx: Any, since: str | None) -> int:
    if since is None or since.isdigit():
        return _number(since)
    return chain.sequence_at(tx, since)


def _number(since: str | None) -> int:
    if since is None:
        return 0
    if not since.isdigit():
        raise typer.BadParameter("with --export, --since is the number of a row")
    return int(since)


def _policy_holds(admin: Admin) -> bool:
    try:
        admin.engine.policy()
    except CovenError as error:
        complain(str(error))
        return False
    return True


def _told(report: Report) -> None:
    show_pairs(
        [
            ("rows checked", report.rows_checked),
            ("head", f"{report.head_sequence}:{report.head_hash[:16]}"),
            ("anchors checked", report.anchors_checked or None),
            ("pruned payloads", report.pruned_payloads or None),
            ("policy head", None if report.policy_head_ok is None else
             "proven" if report.policy_head_ok else "NOT PROVEN"),
        ]
    )  # fmt: skip
    if report.chain_break:
        complain(f"row {report.chain_break['sequence']} {report.chain_break['problem']}")
    if report.ok:
        print("The record is whole.")
    else:
        complain("the record is NOT whole; keep a copy of the database and compare with an anchor")
