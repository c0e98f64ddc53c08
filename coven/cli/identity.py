"""``identity``: the keys that sign rules and the record."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli.context import ConfigOption, JsonOption
from coven.cli.governed import Governed, KeyDirOption, desk, envelope, settings_with
from coven.cli.output import show_json, show_pairs
from coven.governance.admin import status
from coven.governance.identity import KeyRing, Role

app = typer.Typer(
    cls=Governed,
    help="Make, show and rotate the keys that sign rules and the record.",
    no_args_is_help=True,
)

ROLES: tuple[Role, Role] = ("operator", "service")
RoleOption = Annotated[
    Role, typer.Option("--agent-id", help="operator signs rules; service signs the record.")
]


@app.command()
def generate(
    agent_id: RoleOption = "operator",
    force: Annotated[
        bool, typer.Option("--force", help="Replace the key; the old public half stays trusted.")
    ] = False,
    key_dir: KeyDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key pair: <role>.priv (0600) and <role>.pub (0644)."""
    ring = KeyRing.of(settings_with(config, key_dir))
    signer = ring.generate(agent_id, force=force)
    facts = {
        "agent_id": agent_id,
        "key_id": signer.key_id,
        "private": ring.folder / f"{agent_id}.priv",
        "public": ring.folder / f"{agent_id}.pub",
    }
    if as_json:
        show_json(envelope("identity.generate", facts))
        return
    show_pairs([("key id", signer.key_id), *((k, facts[k]) for k in ("private", "public"))])
    if agent_id == "operator":
        print("Next: copy operator.pub to the key folder of every server; never operator.priv.")
        print("Then: coven-github governance install-defaults")


@app.command()
def show(
    key_dir: KeyDirOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show which keys are here and trusted; never a private half."""
    ring = KeyRing.of(settings_with(config, key_dir))
    operator, service = (sorted(ring.public_keys(role).raw) for role in ROLES)
    private_here = (ring.folder / "operator.priv").is_file()
    facts = {
        "key_dir": ring.folder,
        "operator_keys": operator,
        "service_keys": service,
        "operator_private_here": private_here,
    }
    if as_json:
        show_json(envelope("identity.show", facts))
        return
    show_pairs(
        [
            ("key folder", ring.folder),
            ("operator", ", ".join(operator) or "none"),
            ("service", ", ".join(service) or "none"),
            ("operator.priv", "here" if private_here else "not here"),
        ]
    )
    if not operator:
        print("Next: coven-github identity generate")


@app.command()
def rotate(
    key_dir: KeyDirOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Replace the operator's key and sign every rule with the new one."""
    with desk(config, key_dir) as admin:
        admin.engine.policy()  # Nothing is rotated over a policy that can't be trusted.
        old = admin.engine.keys.signer("operator").key_id
        new = admin.engine.keys.generate("operator", force=True).key_id
        rows = admin.resign()
        epoch = status(admin.engine)["policy_epoch"]
    result = {"old": old, "new": new, "resigned": len(rows), "policy_epoch": epoch}
    if as_json:
        show_json(envelope("identity.rotate", result))
        return
    print(f"Key {old} is replaced by {new}; {len(rows)} rules are signed anew, epoch {epoch}.")
    print(f"Next: copy operator.pub to every server, then remove trusted_keys/{old}.pub there.")
