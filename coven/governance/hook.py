"""The PreToolUse hook: ``python -I -m coven.governance.hook --snapshot F --journal F --key HEX``.

Reads one event on standard input. Exit 0 with nothing on standard output: the tool may run. Exit 2
with a reason on standard error, and the same as JSON on standard output: it may not. Both
harnesses understand that. Whatever goes wrong is exit 2. It needs no database and no network, and
imports little, since it starts anew for every tool call.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from coven.governance.actions import Action
    from coven.governance.bash import Shell
    from coven.governance.evaluate import Decision
    from coven.governance.snapshot import Snapshot

ALLOWED, BLOCKED = 0, 2

DEADLINE_SECS = 5.0
MAX_EVENT_BYTES = 4 * 2**20
REASON_CHARS = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one event. Never raises."""
    try:
        signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECS)
        given = _options(sys.argv[1:] if arguments is None else arguments)
        data = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
        refused = check(data, given["--snapshot"], given["--journal"], given["--key"], os.getcwd())  # noqa: PTH109 - pathlib costs time
    except BaseException as error:  # noqa: BLE001 - whatever goes wrong refuses
        refused = f"governance:unavailable: the hook failed ({type(error).__name__})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return answer(refused)


def check(data: bytes, snapshot: str, journal: str, key: str, cwd: str) -> str | None:
    """Judge an event and write the verdict down; why it may not happen, or None. May raise."""
    from coven.errors import GovernanceRefused
    from coven.governance import hook_journal
    from coven.governance.actions import Bash, MalformedAction, action_json
    from coven.governance.bash import ANYWHERE, Shell, afterwards, analyse
    from coven.governance.evaluate import decide, refusal
    from coven.governance.hook_event import read_event
    from coven.governance.signing import PublicKeys
    from coven.governance.snapshot import unseal
    from coven.governance.world import this_machine

    until = time.monotonic() + DEADLINE_SECS - 1
    if len(data) > MAX_EVENT_BYTES:
        return f"{MalformedAction.code}: the event has more than 4 MiB"
    try:
        with open(snapshot, "rb") as file:  # noqa: PTH123 - pathlib costs time
            found = unseal(file.read(), PublicKeys([bytes.fromhex(key)]))
    except GovernanceRefused as error:
        return f"{getattr(error, 'code', 'governance:unavailable')}: {error}"
    entry: dict[str, object] = {"epoch": found.epoch, "at": int(time.time() * 1000)}
    verdicts: list[tuple[Action | None, Decision]] = []
    approved: dict[int, str] = {}
    try:
        event = read_event(data, cwd)
    except MalformedAction as error:
        verdicts.append((None, refusal(error.code, str(error), found.epoch)))
        with suppress(hook_journal.JournalUnusable):
            newest = hook_journal.last(journal)
            shell = remembered(newest, cwd, found.home)
            entry["shell"] = {"cwds": list(shell.cwds), "home": shell.home}
    else:
        entry |= {"tool": event.tool, "tool_use_id": event.tool_use_id, "session": event.session}
        try:
            shell = remembered(hook_journal.last(journal), event.cwd or cwd, found.home)
        except hook_journal.JournalUnusable as error:
            return f"governance:audit_unavailable: {error}"
        if event.told_cwd:
            shell = shell._replace(cwds=("",))
        starts = Shell((ANYWHERE,)) if event.apart else shell
        world = this_machine(
            partial(
                analyse,
                home=starts.home,
                expand=partial(matching, cwd=event.cwd or cwd),
                cwds=starts.cwds,
            )
        )
        policy = found.policy(world)
        scope = found.scope(event.cwd, event.tool_use_id)
        for action in event.actions:
            decision = decide(
                lambda: policy, action, scope, world, expired=lambda: time.monotonic() > until
            )
            verdicts.append((action, decision))
        approved = approvals(found, verdicts, journal)
        blocked = any(one.is_blocking for action, one in verdicts if id(action) not in approved)
        if not (event.background or event.apart or blocked):
            for action in event.actions:
                if isinstance(action, Bash):
                    shell = afterwards(action.command, shell)
        entry["shell"] = {"cwds": list(shell.cwds), "home": shell.home}
    entry["verdicts"] = [
        {
            "action": None if action is None else action_json(action),
            "decision": decision.json(),
            "matched": decision.matched_json(),
            **({"approved": approved[id(action)]} if id(action) in approved else {}),
        }
        for action, decision in verdicts
    ]
    try:
        hook_journal.append(journal, entry)
    except hook_journal.JournalUnusable as error:
        return f"governance:audit_unavailable: {error}"
    blocking = [one for one in verdicts if one[1].is_blocking and id(one[0]) not in approved]
    if not blocking:
        return None
    order = {"refuse": 0, "ask": 0, "escalate": 1}
    asked, first = min(
        blocking, key=lambda one: (order.get(one[1].verdict.value, 0), one[1].rule_id or "")
    )
    wait = ""
    if first.verdict.value == "escalate" and asked is not None:
        asking = found.asking(asked, first.rule_id or "")
        wait = f" (a maintainer must approve {asking}; end with the status needs_input to ask)"
    return f"{first.rule_id}: {first.reason}{wait}"


def approvals(
    found: Snapshot, verdicts: Sequence[tuple[Action | None, Decision]], journal: str
) -> dict[int, str]:
    """Which of these actions an approval of this session lets happen, by ``id()``; used up by this.

    Empty unless everything that stands in the way of the call is approved. May raise.
    """
    from coven.governance.hook_journal import use_up

    wanted: dict[int, str] = {}
    for action, decision in verdicts:
        if not decision.is_blocking:
            continue
        one = None
        if action is not None and decision.verdict.value == "escalate":
            one = found.approval(action, decision.rule_id or "")
        if one is None:
            return {}
        wanted[id(action)] = one.id
    return wanted if all(use_up(journal, each) for each in wanted.values()) else {}


def remembered(newest: Mapping[str, Any], cwd: str, home: str | None) -> Shell:
    """The harness's shell after the calls so far: coven-code keeps folder and environment.

    The journal's newest line says so; before the first call the shell stands in ``cwd``. A line
    that says nothing leaves it anywhere.
    """
    from coven.governance.bash import ANYWHERE, Shell

    if "opened" in newest:
        return Shell((cwd,), home)
    kept = newest.get("shell")
    if not isinstance(kept, dict):
        return Shell((ANYWHERE,), None)
    return Shell(tuple(str(one) for one in kept["cwds"]), kept["home"])


def matching(pattern: str, cwd: str) -> list[str]:
    """The paths that a pattern of a command stands for right now; too many are cut off by whoever
    asks."""
    import glob

    hidden = islice(glob.iglob(pattern, root_dir=cwd, include_hidden=True), 1000)  # noqa: PTH207
    return list(hidden)


def answer(refused: str | None) -> int:
    """Tell the harness, in both dialects at once."""
    if refused is None:
        return ALLOWED
    import json

    reason = " ".join(refused.split())[:REASON_CHARS]
    output = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }
    try:
        sys.stderr.write(reason + "\n")
        sys.stdout.write(json.dumps(output) + "\n")
        sys.stdout.flush()
    except OSError:
        return BLOCKED  # nobody listens; the exit code says it all
    return BLOCKED


def _options(arguments: Sequence[str]) -> dict[str, str]:
    pairs = list(arguments)
    if len(pairs) != 6:
        raise ValueError("usage: --snapshot FILE --journal FILE --key HEX")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _too_late(_number: int, _frame: object) -> None:
    """The deadline: no way back into code that may be stuck."""
    os.write(2, b"governance:timeout: the rules took too long to ask; try again\n")
    os._exit(BLOCKED)


if __name__ == "__main__":
    sys.exit(main())
