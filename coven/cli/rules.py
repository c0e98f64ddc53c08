"""``rules``: what agents may and may not do, and who signed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from coven.cli.context import ConfigOption, JsonOption
from coven.cli.governed import (
    BAD,
    USAGE,
    Governed,
    KeyDirOption,
    SignOption,
    ask_one,
    desk,
    envelope,
    json_object,
    require_sign,
)
from coven.cli.output import complain, show_json, show_pairs, show_table
from coven.governance.actions import Kind
from coven.governance.admin import Admin, NoSuchRule, Row, listed, shown, status
from coven.governance.rules import GLOBAL, Severity
from coven.governance.strict_json import JsonRefused, loads
from coven.governance.world import Origin, Scope

app = typer.Typer(
    cls=Governed,
    help="Look at rules, try them, and change them with the operator's signature.",
    no_args_is_help=True,
    epilog="Exit codes: 0 done or allowed, 1 the answer is bad, 2 refused or escalated, 3 wrong "
    "usage or rule, 4 no operator key, 5 not verified, 6 not reachable now.",
)

IdArgument = Annotated[str | None, typer.Argument(metavar="[ID]", help="Id, such as R001.")]
IdOption = Annotated[str | None, typer.Option("--id", help="The same, as an option.")]


@app.command()
def add(
    *,
    rule_id: IdArgument = None,
    id_: IdOption = None,
    kind: Annotated[Kind, typer.Option(help="What it judges.")],
    matcher: Annotated[str, typer.Option(metavar="JSON", help="When it matches.")],
    severity: Annotated[Severity, typer.Option(help="What happens then.")],
    reason: Annotated[str, typer.Option(help="Why; people and agents read it.")],
    namespace: Annotated[
        str, typer.Option(help="Whom it binds: _global, installation/<id>[/repo/<owner>/<name>].")
    ] = GLOBAL,
    match: Annotated[
        list[str] | None,
        typer.Option("--match", metavar="JSON", help="An action that must match; repeatable."),
    ] = None,
    no_match: Annotated[
        list[str] | None,
        typer.Option("--no-match", metavar="JSON", help="One that must not; repeatable."),
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Let it rest for now.")] = False,
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a rule. Its examples must hold, now and whenever the rules are loaded."""
    name = _named(rule_id, id_)
    require_sign(sign, f"coven-github rules add {name} …")
    examples = {
        key: [json_object(option, text) for text in texts or ()]
        for key, option, texts in (
            ("match", "--match", match),
            ("no_match", "--no-match", no_match),
        )
        if texts
    }
    with desk(config, key_dir) as admin:
        row = admin.add(
            name,
            kind.value,
            matcher,
            severity.value,
            reason,
            namespace=namespace,
            enabled=not disabled,
            examples=examples or None,
        )
        _changed(admin, "rules.add", row, as_json)


@app.command("list")
def list_(
    kind: Annotated[Kind | None, typer.Option(help="Of this kind only.")] = None,
    enabled_only: Annotated[bool, typer.Option("--enabled-only", help="Without resting.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all rules and what becomes of each at a check."""
    with desk(config) as admin:
        rules = [
            rule
            for rule in listed(admin.engine)
            if (kind is None or rule["kind"] == kind.value)
            and (not enabled_only or rule["enabled"])
        ]
        facts = status(admin.engine)
    if as_json:
        result = {"count": len(rules), "rules": rules, "policy_epoch": facts["policy_epoch"]}
        show_json(envelope("rules.list", result))
        return
    show_table(
        ["ID", "STATE", "SEVERITY", "KIND", "NAMESPACE", "MATCHER", "REASON"],
        [
            (
                rule["id"],
                rule["enforcement_state"],
                rule["severity"],
                rule["kind"],
                rule["namespace"],
                json.dumps(rule["matcher"], ensure_ascii=False),
                rule["reason"],
            )
            for rule in rules
        ],
        "No rules. `coven-github db upgrade` brings the shipped ones.",
    )
    if facts["problem"]:
        complain(f"the policy is not in force, so everything is refused: {facts['problem']}")


@app.command()
def show(
    rule_id: IdArgument = None,
    id_: IdOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one rule with its examples and signature."""
    name = _named(rule_id, id_)
    with desk(config) as admin:
        found = next((rule for rule in listed(admin.engine) if rule["id"] == name), None)
    if found is None:
        raise NoSuchRule(f"there is no rule {name[:80]}; see `coven-github rules list`")
    if as_json:
        show_json(envelope("rules.show", found))
        return
    show_pairs(
        (key.replace("_", " "), json.dumps(value) if isinstance(value, dict | list) else value)
        for key, value in found.items()
    )


@app.command()
def check(
    kind: Annotated[Kind, typer.Option(help="Sort of action.")],
    payload: Annotated[str, typer.Option(metavar="JSON", help="Its members, such as command.")],
    agent_id: Annotated[str, typer.Option("--agent-id", help="Who asks, for the record.")] = "cli",
    namespace: Annotated[str, typer.Option(help="As a task of this namespace.")] = GLOBAL,
    origin: Annotated[Origin, typer.Option(help="Our own act, or a tool call.")] = Origin.TOOL,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the rules about one action; the question is put on record. Exit 0 or 2."""
    action = json_object("--payload", payload) | {"kind": kind.value}
    scope = Scope(origin, namespace, cwd=str(Path.cwd()))
    ask_one(config, action, scope, agent_id, as_json)


@app.command("test")
def try_out(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help='JSON list of {"action": {...}, "expect": "refuse", "rule_id"?, "namespace"?}.',
        ),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask about many actions and compare with what is expected; nothing is recorded."""
    cases = _cases(file)
    with desk(config) as admin:
        done = [_tried(admin, case) for case in cases]
    wrong = [each for each in done if not each["holds"]]
    if as_json:
        show_json(envelope("rules.test", {"cases": done, "failed": len(wrong)}))
    else:
        for each in wrong:
            print(f"{each['case']}: expected {each['expect']}, got {each['got']}")
        print(f"{len(done) - len(wrong)} of {len(done)} hold.")
    raise typer.Exit(BAD if wrong else 0)


@app.command()
def enable(
    rule_id: IdArgument = None,
    id_: IdOption = None,
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a rule bind."""
    name = _named(rule_id, id_)
    require_sign(sign, f"coven-github rules enable {name}")
    with desk(config, key_dir) as admin:
        _changed(admin, "rules.enable", admin.enable(name), as_json)


@app.command()
def disable(
    rule_id: IdArgument = None,
    id_: IdOption = None,
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a rule rest."""
    name = _named(rule_id, id_)
    require_sign(sign, f"coven-github rules disable {name}")
    with desk(config, key_dir) as admin:
        _changed(admin, "rules.disable", admin.disable(name), as_json)


@app.command()
def remove(
    rule_id: IdArgument = None,
    id_: IdOption = None,
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a rule out for good; its row and its id stay, so that the record makes sense."""
    name = _named(rule_id, id_)
    require_sign(sign, f"coven-github rules remove {name}")
    with desk(config, key_dir) as admin:
        _changed(admin, "rules.remove", admin.remove(name), as_json)


@app.command()
def resign(
    although_tampered: Annotated[
        bool,
        typer.Option(
            "--although-tampered", help="You looked at every rule, and they are as you want them."
        ),
    ] = False,
    sign: SignOption = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign all rules anew with the present key: after a rotation or a restored backup."""
    require_sign(sign, "coven-github rules resign")
    with desk(config, key_dir) as admin:
        rows = admin.resign(although_tampered=although_tampered)
        epoch = status(admin.engine)["policy_epoch"]
    ids = [row["id"] for row in rows]
    if as_json:
        show_json(envelope("rules.resign", {"resigned": ids, "policy_epoch": epoch}))
    else:
        print(f"{len(ids)} rules are signed anew; the policy is epoch {epoch}.")


def _named(argument: str | None, option: str | None) -> str:
    if (argument is None) == (option is None) and argument != option:
        raise typer.BadParameter("the id is given twice, and differently; give it once")
    name = argument or option
    if not name:
        raise typer.BadParameter("which rule? Give its id, such as R001")
    return name


def _changed(admin: Admin, verb: str, row: Row, as_json: bool) -> None:
    epoch = status(admin.engine)["policy_epoch"]
    if as_json:
        show_json(envelope(verb, shown(row) | {"policy_epoch": epoch}))
        return
    how = "removed" if row["removed_at"] else "enabled" if row["enabled"] else "disabled"
    print(
        f"Rule {row['id']} is {how} (revision {row['revision']}, signed by {row['key_id']}); "
        f"the policy is epoch {epoch}."
    )


def _cases(file: Path) -> list[dict[str, Any]]:
    try:
        value = loads(file.read_bytes())
    except (JsonRefused, OSError) as error:
        complain(f"{file}: {error}")
        raise typer.Exit(USAGE) from None
    good = isinstance(value, list) and all(
        isinstance(case, dict) and isinstance(case.get("action"), dict) and "expect" in case
        for case in value
    )
    if not good:
        complain(f'{file}: write a list of {{"action": {{...}}, "expect": "refuse"}}')
        raise typer.Exit(USAGE)
    cases: list[dict[str, Any]] = value  # type: ignore[assignment]
    return cases


def _tried(admin: Admin, case: dict[str, Any]) -> dict[str, Any]:
    scope = Scope(
        Origin(case.get("origin", "tool")), case.get("namespace", GLOBAL), cwd=case.get("cwd")
    )
    decision = admin.engine.decide(case["action"], scope)
    wanted, got = str(case["expect"]), decision.verdict.value
    holds = wanted == got and case.get("rule_id") in (None, decision.rule_id)
    by = f" by {decision.rule_id}" if decision.rule_id else ""
    expect = f"{wanted} by {case['rule_id']}" if case.get("rule_id") else wanted
    label = case.get("name") or json.dumps(case["action"], ensure_ascii=False)[:120]
    return {"case": label, "expect": expect, "got": f"{got}{by}", "holds": holds}
