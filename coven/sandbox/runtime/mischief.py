"""Misbehaving on request, so that supervision and judging are tested on real processes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from coven.sandbox.runtime.brief import Brief
from coven.sandbox.runtime.flags import Flags
from coven.sandbox.runtime.memory import honest, malicious
from coven.sandbox.runtime.report import Work
from coven.sandbox.runtime.scenario import Scenario
from coven.sandbox.runtime.voice import Voice

STATE = "COVEN_SANDBOX_STATE"

FOREVER = 100_000.0
"""Seconds that a hanging part sleeps; long past every deadline."""

MIB = 2**20


def before_work(scenario: Scenario, flags: Flags, brief: Brief, voice: Voice) -> Work | None:
    """What happens instead of the work: a finished :class:`Work`, or None to go on honestly."""
    if scenario.has("slow"):
        _slowly(scenario.number("slow", 2.0), voice)
    if scenario.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _fork_sleeper(own_session=False)
        voice.say("Working on it and not listening. ")
        _sleep_for_ever()
    if scenario.has("hang"):
        voice.say("Let me think about this for a while. ")
        _sleep_for_ever()
    if scenario.has("signal"):
        os.kill(os.getpid(), int(scenario.number("signal", signal.SIGKILL)))
    if scenario.has("crash"):
        sys.stderr.write("thread 'main' panicked at src/main.rs:1:1:\nexplicit panic\n")
        sys.stderr.flush()
        os._exit(101)
    _hog(scenario, brief)
    if scenario.has("flaky") and _attempt(flags, brief) <= scenario.number("flaky", 1):
        voice.error("connection reset by peer")
        return _infra(voice)
    if scenario.has("turn-limit"):
        voice.error(f"turn limit reached after {flags.max_turns} turns (--max-turns)")
        return _infra(voice)
    if scenario.has("auth-error"):
        voice.error("API error 401: authentication_error: invalid x-api-key")
        return _infra(voice)
    if scenario.has("needs-input") and "questions and their answers" not in brief.text:
        return _needs_input(scenario, brief, voice)
    if scenario.has("failure"):
        return _ended(
            brief, voice, "failure", "test_failure", 1, "The tests could not be made to pass."
        )
    return None


def after_work(scenario: Scenario, work: Work, voice: Voice) -> None:
    """What happens besides the work, and the exit code that was asked for."""
    if scenario.has("grandchildren"):
        _fork_sleeper(own_session=True)
        _fork_sleeper(own_session=False)
        voice.say("Left a helper running in the background. ")
    if scenario.has("huge-output"):
        _flood(int(scenario.number("huge-output", 64)))
    if scenario.has("partial"):
        work.status, work.exit_reason = "partial", None
        work.limitations.append("Unable to finish everything in the time given.")
        if work.evidence == "complete":
            work.evidence = "partial"
    if scenario.has("leak-env"):
        dump = "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))
        voice.say(dump + "\n")
        work.closing += f"\n\n```\n{dump}\n```\n"
        work.prose = voice.said + work.closing
        work.limitations.append(dump)
    if scenario.has("leak-proc"):
        voice.say(_all_processes())
    if scenario.exit_code is not None:
        _agree_with(scenario.exit_code, work)


def spoil_result(scenario: Scenario, brief: Brief, work: Work, result: dict[str, Any]) -> None:
    """Change the result before it is written."""
    if scenario.has("wrong-version"):
        result["contract_version"] = scenario.chosen["wrong-version"] or "9"
    if scenario.has("memory-honest"):
        result["memory_used"] = honest(brief, work)
    if scenario.has("memory-malicious"):
        result["memory_used"] = malicious(brief)
    if scenario.has("leak-path"):
        # Put together here, so that no scanner of source code takes it for a real one.
        token = "ghp_" + "a1B2" * 9
        result["review"]["supporting_files"] = [f"docs/{token}.md"]
        result["files_changed"] = [f"docs/{token}.md"]
    if scenario.has("big-result"):
        result["pr_body"] = "x" * int(scenario.number("big-result", 64) * MIB)


def spoil_file(scenario: Scenario, output: Path, result: dict[str, Any]) -> bool:
    """Put something else than a result where the result belongs; whether that was done."""
    if scenario.has("missing"):
        return True
    if scenario.has("malformed"):
        output.write_text('{"contract_version": "2", "status": ', encoding="utf-8")
        return True
    if scenario.has("symlink-result"):
        target = output.with_name("elsewhere.json")
        target.write_text(json.dumps(result), encoding="utf-8")
        output.symlink_to(scenario.chosen["symlink-result"] or target)
        return True
    if scenario.has("fifo-result"):
        os.mkfifo(output)
        return True
    if scenario.has("directory-result"):
        output.mkdir()
        return True
    # Codes that no contract knows come without a result, unless one was made for them.
    return scenario.exit_code is not None and scenario.exit_code > 3


def _all_processes() -> str:
    """Arguments and environment of every process that can be seen from here."""
    found = []
    for folder in sorted(Path("/proc").iterdir()):
        if folder.name.isdigit():
            for name in ("cmdline", "environ"):
                try:
                    raw = (folder / name).read_bytes()
                except OSError as error:
                    raw = f"({error.strerror})".encode()
                shown = raw.replace(b"\0", b"\n").decode("utf-8", "replace")
                found.append(f"== {folder.name} {name}\n{shown}")
    return "\n".join(found) + "\n== end of processes\n"


def _agree_with(code: int, work: Work) -> None:
    """Make status and reason fit the exit code, so that only the code is under test."""
    work.exit_code = code
    status, reason = {
        0: (work.status, work.exit_reason),
        1: ("failure", "test_failure"),
        3: ("needs_input", "ambiguous_spec"),
    }.get(code, ("failure", "infra_error"))
    work.status, work.exit_reason = status, reason


def _infra(voice: Voice) -> Work:
    voice.say("Stopped before the work was finished.\n")
    return Work(
        status="failure",
        exit_reason="infra_error",
        exit_code=2,
        prose=voice.said,
        closing=voice.said,
        evidence="partial",
        limitations=["Unable to finish: the session ended early."],
    )


def _ended(brief: Brief, voice: Voice, status: str, reason: str, code: int, text: str) -> Work:
    voice.say(f"## {brief.display_name} stopped\n\n{text}\n")
    return Work(
        status=status,
        exit_reason=reason,
        exit_code=code,
        prose=voice.said,
        closing=voice.said,
        evidence="partial",
        limitations=[f"Unable to finish: {text}"],
    )


def _needs_input(scenario: Scenario, brief: Brief, voice: Voice) -> Work:
    question = scenario.chosen["needs-input"] or "Which behaviour is wanted when the list is empty?"
    work = _ended(brief, voice, "needs_input", "ambiguous_spec", 3, question)
    work.prose = work.closing = question
    return work


def _slowly(seconds: float, voice: Voice) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        voice.say("Still reading. ")
        time.sleep(min(1.0, left))


def _sleep_for_ever() -> None:
    end = time.monotonic() + FOREVER
    while time.monotonic() < end:
        time.sleep(60)


def _fork_sleeper(*, own_session: bool) -> None:
    """A child that sleeps with the pipes open; daemonised twice when ``own_session``."""
    if os.fork():
        return
    if own_session:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _sleep_for_ever()
    os._exit(0)


def _flood(mebibytes: int) -> None:
    line = b"x" * 1023 + b"\n"
    block = line * 64
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        for _ in range(mebibytes * 8):
            os.write(stream.fileno(), block)


def _hog(scenario: Scenario, brief: Brief) -> None:
    """Use more than the limits allow, and stay alive until that is noticed."""
    if scenario.has("hog-memory"):
        held = [bytearray(b"x") * MIB for _ in range(int(scenario.number("hog-memory", 512)))]
        time.sleep(FOREVER if held else 0)
    if scenario.has("hog-disk"):
        for index in range(int(scenario.number("hog-disk", 256))):
            (brief.root / f"filler-{index}").write_bytes(b"x" * MIB)
        _sleep_for_ever()
    if scenario.has("fork-bomb"):
        for _ in range(int(scenario.number("fork-bomb", 200))):
            _fork_sleeper(own_session=False)
        _sleep_for_ever()


def _attempt(flags: Flags, brief: Brief) -> int:
    """Which attempt at this task this is, from 1, counted by a file."""
    folder = os.environ.get(STATE)
    base = Path(folder) if folder else (flags.output or flags.context).parent
    identity = f"{brief.owner}/{brief.name}#{brief.number}:{brief.kind}:{brief.mode}"
    counter = base / f"attempts-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    with counter.open("ab") as file:
        file.write(b"x")
    return counter.stat().st_size
