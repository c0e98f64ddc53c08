"""``up``, ``web``, ``worker``, ``control`` and ``beat``."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer

from coven.cli import exits, listen, processes
from coven.cli.context import ConfigOption, upgraded_store
from coven.cli.output import complain
from coven.cli.probe import backend_report
from coven.cli.processes import Program
from coven.cli.supervisor import Printer, Supervisor, printer_for
from coven.embedded import BrokerUnavailable, EmbeddedBroker, broker_dir
from coven.settings.defaults import ENV_CONFIG
from coven.settings.doctor import Level, diagnose
from coven.settings.env import variable_of
from coven.settings.loader import InvalidConfiguration, load, resolve_secret_key
from coven.settings.machine import Machine
from coven.settings.models import Settings
from coven.setup.flow import names_app

ADDRESS_SECS = 5.0
"""A receiver that was told to end still holds its address for a moment."""


def up(config: ConfigOption = None) -> None:
    """Run everything in this terminal: broker, receiver, workers. Ctrl-C stops it in good order."""
    settings = usable(config, whole=True)
    _await_address(settings)
    with upgraded_store(settings):
        pass
    resolve_secret_key(settings)
    programs = [make(settings) for make in (processes.web, processes.control, processes.worker)]
    programs.append(processes.beat(settings))
    printer = printer_for(["up", *(program.name for program in programs)])
    broker = EmbeddedBroker(broker_dir(settings)) if settings.queue.broker_url is None else None
    env = processes.environment(_chosen(config))
    format_variable = variable_of("logging.format")
    if sys.stdout.isatty() and "format" not in settings.logging.model_fields_set:
        env.setdefault(format_variable, "pretty")
    supervisor = Supervisor(programs, env, printer, also=_watch(broker, printer))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, supervisor.stop)
    try:
        if broker is not None:
            broker.start()
            printer.line("up", f"embedded broker {broker.url}")
        printer.line("up", f"state {settings.server.state_dir}")
        _announce(settings, printer)
        code = supervisor.run()
    finally:
        if broker is not None:
            broker.stop()
    printer.line("up", "stopped")
    raise typer.Exit(code)


def web(config: ConfigOption = None) -> None:
    """Run the receiver of webhooks (gunicorn) in the foreground.

    While no App is configured it only offers to register one, at the address that it prints.
    """
    loaded = load(config)
    if loaded.settings is not None and not loaded.problems and not names_app(loaded.settings):
        _await_address(loaded.settings)
        _replace_with(processes.setup_web(loaded.settings), config)
    _become(processes.web, config, before=_await_address)


def worker(config: ConfigOption = None) -> None:
    """Run a worker for sessions in the foreground."""
    _become(processes.worker, config)


def control(config: ConfigOption = None) -> None:
    """Run the worker for answers, publishing and upkeep in the foreground."""
    _become(processes.control, config)


def beat(config: ConfigOption = None) -> None:
    """Run the sender of periodic upkeep in the foreground."""
    _become(processes.beat, config)


def usable(config: Path | None, *, whole: bool = False) -> Settings:
    """The configuration, after the doctor's checks; warnings go to stderr.

    ``whole`` also tries the session backend. Raises ``InvalidConfiguration`` for problems of the
    file; exits with :data:`exits.UNUSABLE` for errors of the checks.
    """
    loaded = load(config)
    if loaded.settings is None or loaded.problems:
        raise InvalidConfiguration(loaded.problems, unreadable=loaded.unreadable)
    machine = Machine(backend_report=backend_report(config)) if whole else None
    diagnosis = diagnose(loaded, machine)
    for finding in diagnosis.findings:
        if finding.level is not Level.OK:
            complain(f"{finding.level} {finding.key}: {finding.problem}; {finding.next_step}")
    if diagnosis.errors:
        complain("not started; `coven-github doctor` shows all of this as a table")
        raise typer.Exit(exits.UNUSABLE)
    return loaded.settings


def _chosen(config: Path | None) -> Path | None:
    named = os.environ.get(ENV_CONFIG, "").strip()
    return config or (Path(named) if named else None)


def _await_address(settings: Settings) -> None:
    """Wait for an earlier receiver to leave ``server.bind``; exits when it can't be had.

    gunicorn would try as long, with fifteen lines and no next step.
    """
    give_up_at = time.monotonic() + ADDRESS_SECS
    while (problem := listen.problem(settings.server.bind)) is not None:
        if not problem.passes or time.monotonic() >= give_up_at:
            complain(f"server.bind: {problem.text}")
            raise typer.Exit(exits.UNAVAILABLE)
        time.sleep(0.1)


def _become(
    make: Callable[[Settings], Program],
    config: Path | None,
    before: Callable[[Settings], None] = lambda _: None,
) -> None:
    """Replace this process, so that signals of a service manager reach the real one."""
    settings = usable(config)
    before(settings)
    _replace_with(make(settings), config)


def _replace_with(program: Program, config: Path | None) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program.argv[0], program.argv, processes.environment(_chosen(config)))  # noqa: S606 - argv of our own


def _watch(broker: EmbeddedBroker | None, printer: Printer) -> Callable[[], None]:
    def restart() -> None:
        if broker is None or broker.alive():
            return
        printer.line("up", "the embedded broker ended; starting it again")
        try:
            broker.start()
        except BrokerUnavailable as error:
            printer.line("up", str(error))

    return restart


def _announce(settings: Settings, printer: Printer) -> None:
    """Say when the receiver takes connections, without holding anything up."""
    host, _, port = settings.server.bind.rpartition(":")
    address = host.strip("[]")
    target = "127.0.0.1" if address in {"0.0.0.0", ""} else address  # noqa: S104 - compared

    def wait() -> None:
        pause = threading.Event()
        for _ in range(300):
            try:
                socket.create_connection((target, int(port)), timeout=1).close()
            except OSError:
                pause.wait(0.1)
            else:
                printer.line("up", f"ready: http://{target}:{port}/webhook")
                return

    threading.Thread(target=wait, daemon=True).start()
