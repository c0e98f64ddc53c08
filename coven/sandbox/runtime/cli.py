"""The program: flags, brief, work, result, exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coven.sandbox.runtime.brief import BadBrief, Brief, read_brief
from coven.sandbox.runtime.fix import fix
from coven.sandbox.runtime.flags import VERSION, BadFlags, Flags, parse
from coven.sandbox.runtime.git import Checkout, GitFailed
from coven.sandbox.runtime.mischief import after_work, before_work, spoil_file, spoil_result
from coven.sandbox.runtime.report import Work, envelope
from coven.sandbox.runtime.review import review
from coven.sandbox.runtime.scenario import Scenario, UnknownScenario, parse_scenario
from coven.sandbox.runtime.voice import Voice


def main(args: Sequence[str]) -> int:
    """Run once; the exit code of the process."""
    try:
        flags = parse(args, os.environ)
    except BadFlags as problem:
        sys.stderr.write(f"error: {problem}\n\nFor more information, try '--help'.\n")
        return 2
    if flags.show_version:
        sys.stdout.write(VERSION + "\n")
        return 0
    try:
        brief = read_brief(flags.context)
        brief = replace(brief, model=brief.model or flags.model)
        scenario = parse_scenario(brief.model)
    except (BadBrief, UnknownScenario) as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 1
    return _session(flags, brief, scenario)


def _session(flags: Flags, brief: Brief, scenario: Scenario) -> int:
    voice = Voice()
    strict = scenario.has("contract-v2")
    # By the contract's words a review comment is answered by a change; today's runtime only reads.
    mode = "none" if strict and brief.kind == "address_review_comment" else brief.mode
    checkout = Checkout(brief.root, brief.display_name)
    early = before_work(scenario, flags, brief, voice)
    if scenario.has("other-branch"):
        name = scenario.chosen["other-branch"] or f"{brief.familiar}/another-name"
        checkout.git("switch", "-q", "-c", name)
    work = early if early is not None else _work(flags, brief, checkout, voice, mode, strict)
    work.mode = mode
    after_work(scenario, work, voice)
    result = envelope(brief, checkout, work, strict=strict)
    spoil_result(scenario, brief, work, result)
    if flags.output is None:
        return 0 if work.exit_code == 0 else 1
    spoiled = spoil_file(scenario, flags.output, result)
    if not spoiled:
        _write(flags.output, result)
    return work.exit_code


def _work(
    flags: Flags, brief: Brief, checkout: Checkout, voice: Voice, mode: str, strict: bool
) -> Work:
    try:
        if (mode != "none" or flags.hosted_review) and not flags.hosted_repair:
            return review(brief, checkout, voice)
        return fix(brief, checkout, voice, hosted_repair=flags.hosted_repair, must_push=strict)
    except (GitFailed, OSError) as error:
        voice.error(str(error))
        return Work(
            status="failure",
            exit_reason="infra_error",
            exit_code=2,
            prose=voice.said or "The session could not finish.",
            closing="The session could not finish.",
            evidence="partial" if brief.files else "missing",
        )


def _write(path: Path, result: dict[str, Any]) -> None:
    """A plain write, not an atomic one; failing is only a warning, as in the real program."""
    try:
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False), encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        sys.stderr.write(f"warning: cannot write result: {error}\n")
