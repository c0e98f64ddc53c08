"""Fixing: understands simple requests, edits, and commits and pushes where it may."""

from __future__ import annotations

import re
from pathlib import Path

from coven.sandbox.runtime.brief import Brief
from coven.sandbox.runtime.changes import changed_lines
from coven.sandbox.runtime.git import Checkout, GitFailed
from coven.sandbox.runtime.repairs import REPAIRS, literal_replacements, named_files
from coven.sandbox.runtime.report import Work
from coven.sandbox.runtime.voice import Voice

SOURCES = re.compile(r"\.(?:py|js|jsx|ts|tsx|rb|go|rs|java|c|h|cpp|md|toml|ya?ml|json|txt)\Z")
MOST_FILES = 300


def fix(
    brief: Brief, checkout: Checkout, voice: Voice, *, hosted_repair: bool, must_push: bool
) -> Work:
    """Do the work that the task asks for.

    With ``hosted_repair`` the edits stay uncommitted. Otherwise they are committed on the branch
    and pushed with the checkout's own credential helper; only with ``must_push`` does a failing
    push end the session. Raises :class:`GitFailed`.
    """
    work = Work(start_sha=checkout.head)
    voice.say(f"Let me read what #{brief.number} asks for. ")
    done = _repair(brief, checkout, voice)
    if not done and brief.kind == "fix_issue":
        done = _leave_note(brief, checkout, voice)
    if not done:
        return _answer(brief, work, voice, hosted_repair)
    if hosted_repair:
        if not checkout.dirty:
            return _gave_up(work, voice, "Only new files were written, so nothing is modified.")
    else:
        _publish(brief, checkout, voice, work, sorted(done), must_push=must_push)
    work.closing = _write_up(brief, done)
    voice.say("\n\n" + work.closing + "\n")
    work.prose = voice.said
    return work


def _repair(brief: Brief, checkout: Checkout, voice: Voice) -> dict[str, list[str]]:
    """Apply what the text asks for; file -> what was done to it."""
    tracked = checkout.tracked()
    named = named_files(brief.text, tracked)
    named = named or [name for name in changed_lines(brief.instruction) if name in set(tracked)]
    named = named or _holding(brief.diff_hunk, tracked, checkout)
    candidates = named or [name for name in tracked if SOURCES.search(name)][:MOST_FILES]
    replacements = literal_replacements(brief.text)
    asked = [repair for repair in REPAIRS if repair.words.search(brief.text)]
    if named and not asked and not replacements:
        asked = list(REPAIRS)
    done: dict[str, list[str]] = {}
    for name in candidates:
        before = checkout.read(name)
        if before is None:
            continue
        after, what = before, []
        for old, new in replacements:
            if old in after:
                after = after.replace(old, new)
                what.append(f"Replace `{old}` with `{new}`")
        for repair in asked if name.endswith((".py", ".js", ".ts")) else ():
            changed = repair.apply(after)
            if changed != after:
                after = changed
                what.append(repair.done)
        if after != before:
            voice.tool("Edit", name)
            (checkout.root / name).write_text(after, encoding="utf-8", newline="")
            done[name] = what
    return done


def _holding(hunk: str | None, tracked: list[str], checkout: Checkout) -> list[str]:
    """The files that hold the added lines of a review comment's hunk."""
    added = [line[1:].strip() for line in (hunk or "").splitlines() if line.startswith("+")]
    wanted = [line for line in added if len(line) > 5][-3:]
    if not wanted:
        return []
    found = []
    for name in [name for name in tracked if SOURCES.search(name)][:MOST_FILES]:
        text = checkout.read(name)
        if text is not None and all(line in text for line in wanted):
            found.append(name)
    return found


def _leave_note(brief: Brief, checkout: Checkout, voice: Voice) -> dict[str, list[str]]:
    """What is not understood becomes a note for people, linked from the README if there is one."""
    note = Path("docs") / "notes" / f"issue-{brief.number}.md"
    target = checkout.root / note
    if not target.parent.resolve().is_relative_to(checkout.root.resolve()):
        return {}
    voice.tool("Write", str(note))
    target.parent.mkdir(parents=True, exist_ok=True)
    words = " ".join(brief.text.split())[:600]
    target.write_text(
        f"# Notes on issue {brief.number}\n\nAsked for: {words}\n\nNo mechanical repair fits. "
        "Somebody who knows this code should look at it.\n",
        encoding="utf-8",
    )
    done = {str(note): ["Write down what was asked for"]}
    readme = next((name for name in checkout.tracked() if name.lower() == "readme.md"), None)
    text = checkout.read(readme) if readme else None
    if readme and text is not None:
        voice.tool("Edit", readme)
        link = f"\nSee also [notes on issue {brief.number}]({note}).\n"
        (checkout.root / readme).write_text(text.rstrip("\n") + "\n" + link, encoding="utf-8")
        done[readme] = ["Link the note"]
    return done


def _publish(
    brief: Brief,
    checkout: Checkout,
    voice: Voice,
    work: Work,
    files: list[str],
    *,
    must_push: bool,
) -> None:
    """Commit on the session's branch and push it. A push that fails is said."""
    branch = checkout.branch
    if branch in (None, "HEAD", brief.default_branch):
        branch = _reserved(brief) or f"{brief.familiar}/fix-issue-{brief.number}"
        voice.tool("Bash", f"git switch -c {branch}")
        checkout.git("switch", "-q", "-c", branch)
    subject = brief.title or f"Address the request in #{brief.number}"
    voice.tool("Bash", "git commit")
    checkout.git("add", "--", *files)
    checkout.git("commit", "-q", "-m", subject[:72], "-m", f"Refers to issue {brief.number}.")
    voice.tool("Bash", f"git push -u origin HEAD:refs/heads/{branch}")
    try:
        checkout.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        work.pushed_branch = branch
    except GitFailed as error:
        if must_push:
            raise
        voice.error(f"push failed: {error}")
        work.limitations.append("The branch could not be pushed.")


def _reserved(brief: Brief) -> str | None:
    """The branch that the adapter reserved, as the instruction names it."""
    pattern = rf"\b{re.escape(brief.familiar)}/[a-z]+-\d+-[0-9a-f]{{8}}\b"
    match = re.search(pattern, brief.instruction)
    return match.group() if match else None


def _answer(brief: Brief, work: Work, voice: Voice, hosted_repair: bool) -> Work:
    if hosted_repair or brief.kind == "fix_issue":
        return _gave_up(work, voice, "The request names nothing that could be changed safely.")
    work.closing = (
        f"## {brief.display_name} looked at #{brief.number}\n\n"
        "The request names no change that could be made mechanically, so nothing was edited."
    )
    voice.say("\n\n" + work.closing + "\n")
    work.prose = voice.said
    return work


def _gave_up(work: Work, voice: Voice, why: str) -> Work:
    work.status, work.exit_reason, work.exit_code = "failure", "ambiguous_spec", 1
    work.closing = f"## Gave up\n\n{why}"
    voice.say("\n\n" + work.closing + "\n")
    work.prose = voice.said
    return work


def _write_up(brief: Brief, done: dict[str, list[str]]) -> str:
    lines = [f"- `{name}`: {'; '.join(what)}." for name, what in sorted(done.items())]
    title = brief.title or f"what #{brief.number} asks for"
    return (
        f"## {brief.display_name} worked on {title}\n\n### What changed\n\n"
        + "\n".join(lines)
        + "\n\nThe change is mechanical and was not run; please look at it before merging."
    )
