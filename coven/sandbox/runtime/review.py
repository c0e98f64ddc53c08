"""Reviewing a pull request: reads the changed files and reports what its rules see."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath

from coven.sandbox.runtime.brief import Brief
from coven.sandbox.runtime.changes import ChangedLines
from coven.sandbox.runtime.git import Checkout
from coven.sandbox.runtime.report import Work
from coven.sandbox.runtime.rules import Finding, findings
from coven.sandbox.runtime.voice import Voice

MOST_FINDINGS = 50


def review(brief: Brief, checkout: Checkout, voice: Voice) -> Work:
    """Do the review. Evidence and status follow the real runtime's rules."""
    work = Work(start_sha=checkout.head)
    voice.say(f"Let me look at what changed in {brief.owner}/{brief.name}. ")
    changed = ChangedLines(brief, checkout)
    read: dict[str, str] = {}
    for name in brief.files:
        text = checkout.read(name)
        if text is None:
            work.limitations.append(f"Could not read `{name}`: it is absent, binary or too big.")
            continue
        voice.tool("Read", name)
        read[name] = text
        work.findings += findings(name, text, changed.of(name))
    if len(work.findings) > MOST_FINDINGS:
        work.limitations.append(
            f"Unable to list all {len(work.findings)} findings; the first {MOST_FINDINGS} follow."
        )
        del work.findings[MOST_FINDINGS:]
    supporting = _supporting(brief, checkout)
    if supporting is not None:
        voice.tool("Read", supporting)
        work.supporting = [supporting]
    else:
        work.limitations.append("The repository holds no readable file beyond the changed ones.")
    work.tests = _parse_check(read)
    if not work.findings and read:
        names = ", ".join(f"`{name}`" for name in list(read)[:5])
        work.no_findings_reason = (
            f"Read every changed line of {names} against the rules for credentials, injection, "
            "unsafe loading, error handling and loop bounds; none of them applies."
        )
    work.evidence = _evidence(brief, work)
    work.status = "success" if work.evidence == "complete" else "partial"
    work.closing = _write_up(brief, work)
    voice.say("\n\n" + work.closing + "\n")
    work.prose = voice.said
    return work


def _evidence(brief: Brief, work: Work) -> str:
    """``missing`` without files; ``complete`` needs a supporting file and a substantive answer."""
    if not brief.files:
        return "missing"
    substantive = bool(work.findings or work.no_findings_reason)
    return "complete" if work.supporting and substantive else "partial"


def _supporting(brief: Brief, checkout: Checkout) -> str | None:
    """A file beyond the changed ones, as near to them as possible."""
    given = set(brief.files)
    folders = {str(PurePosixPath(name).parent) for name in given}
    candidates = [
        name
        for name in checkout.tracked()[:20_000]
        if name not in given and PurePosixPath(name).suffix and not name.startswith(".")
    ]
    candidates.sort(key=lambda name: (str(PurePosixPath(name).parent) not in folders, len(name)))
    return next((name for name in candidates[:20] if checkout.read(name) is not None), None)


def _parse_check(read: dict[str, str]) -> list[dict[str, str]]:
    """Whether the changed Python files parse: the one check that is really run."""
    names = [name for name in read if name.endswith(".py")]
    if not names:
        return []
    broken = []
    for name in names:
        try:
            ast.parse(read[name])
        except (SyntaxError, ValueError, RecursionError):
            broken.append(name)
    return [
        {
            "command": f"python -m ast {' '.join(names[:5])}",
            "status": "failed" if broken else "passed",
            "output_summary": (
                f"{len(broken)} of {len(names)} files do not parse: {', '.join(broken[:5])}"
                if broken
                else f"All {len(names)} changed Python files parse."
            ),
        }
    ]


def _write_up(brief: Brief, work: Work) -> str:
    count = len(work.findings)
    verdict = f"found {count} finding{'s' if count != 1 else ''}" if count else "found no defect"
    supporting = ", ".join(f"`{name}`" for name in work.supporting) or "none"
    parts = [
        f"## {brief.display_name} {verdict} in {len(brief.files)} changed "
        f"file{'s' if len(brief.files) != 1 else ''}",
        "### Files inspected",
        "\n".join(f"- `{name}`" for name in brief.files[:50]) or "- none",
        "### Supporting context used",
        f"Read {supporting} as context beyond the change.",
        "### Findings",
        "\n".join(_finding_line(item) for item in work.findings) or "None.",
    ]
    if work.no_findings_reason:
        parts += ["### No-findings justification", work.no_findings_reason]
    parts += ["### Confidence/limitations"]
    parts += ["\n".join(f"- {text}" for text in work.limitations) or "Static rules only."]
    return "\n\n".join(parts)


def _finding_line(item: Finding) -> str:
    return (
        f"- [{item.severity}] `{item.file}:{item.line}` {item.title}. {item.body} "
        f"Recommendation: {item.recommendation}"
    )
