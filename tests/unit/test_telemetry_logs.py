from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog
from celery import Celery

from coven import telemetry

SECRET = "ghs_thisisaverysecrettoken0123456789"


class Mask:
    def text(self, s: str) -> str:
        return s.replace(SECRET, "[redacted]")


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """Puts the logging of the test process back afterwards."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield io.StringIO()
    root.handlers[:], level = before
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
    telemetry.clear()


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_the_bound_facts(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), process="web", stream=out)
    telemetry.bind(delivery="d-1", task=None)
    with telemetry.bound(installation=7):
        telemetry.logger("coven.x").info("delivery_recorded", routing="task:1")
    telemetry.logger("coven.x").info("later")
    first, second = lines(out)
    assert first["event"] == "delivery_recorded"
    assert first["delivery"] == "d-1"
    assert first["installation"] == 7
    assert first["routing"] == "task:1"
    assert first["process"] == "web"
    assert first["level"] == "info"
    assert first["logger"] == "coven.x"
    assert str(first["timestamp"]).endswith("Z")
    assert "task" not in first
    assert "installation" not in second


@pytest.mark.parametrize(
    "name", ["celery.worker", "gunicorn.error", "flask", "werkzeug", "some.library"]
)
def test_lines_of_libraries_take_the_same_pipe_and_are_masked(out: io.StringIO, name: str) -> None:
    logging.getLogger(name).addHandler(logging.NullHandler())
    telemetry.configure("json", "info", Mask(), stream=out)
    logging.getLogger(name).warning("token %s sent", SECRET)
    (line,) = lines(out)
    assert line["event"] == "token [redacted] sent"
    assert line["logger"] == name


def test_secrets_are_masked_at_every_depth_and_in_tracebacks(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), stream=out)
    log = telemetry.logger("x")
    log.info("nested", a={"b": [SECRET, {SECRET: 1}]}, c=SECRET.encode())
    try:
        raise ValueError(f"bad {SECRET}")
    except ValueError:
        log.exception("failed")
    assert SECRET not in out.getvalue()
    nested, failed = lines(out)
    assert nested["a"] == {"b": ["[redacted]", {"[redacted]": 1}]}
    assert "ValueError: bad [redacted]" in str(failed["exception"])


def test_a_secret_is_not_cut_into_an_unmasked_half(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), stream=out)
    for start in range(8_150, 8_200, 7):
        telemetry.logger("x").info("x" * start + SECRET + "y" * 20_000)
    assert SECRET[:12] not in out.getvalue()
    assert all(len(str(line["event"])) < 9_000 for line in lines(out))


@pytest.mark.parametrize("style", ["json", "pretty"])
def test_the_level_is_kept_in_both_formats(out: io.StringIO, style: str) -> None:
    telemetry.configure(style, "warning", Mask(), stream=out)  # type: ignore[arg-type]
    log = telemetry.logger("x")
    log.info("quiet")
    log.warning("loud", why=SECRET)
    assert "quiet" not in out.getvalue()
    assert "loud" in out.getvalue()
    assert SECRET not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 1


def test_configuring_again_replaces_and_does_not_double(out: io.StringIO) -> None:
    for _ in range(3):
        telemetry.configure("json", "info", Mask(), stream=out)
    telemetry.logger("x").info("once")
    assert len(lines(out)) == 1


def test_a_line_that_cannot_be_formatted_is_kept_and_masked(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), stream=out)
    logging.getLogger("lib").warning(f"{SECRET} %d", "not a number")
    assert "not formatted" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_a_newline_in_a_value_cannot_fake_a_second_line(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), stream=out)
    telemetry.logger("x").info('a\n{"event": "forged"}', title="b\nc")
    assert len(out.getvalue().splitlines()) == 1


def test_celery_does_not_set_up_logging_of_its_own(out: io.StringIO) -> None:
    telemetry.configure("json", "info", Mask(), stream=out)
    before = (sys.stdout, logging.getLogger().handlers[:])
    Celery("probe", set_as_current=False).log.setup(loglevel=logging.ERROR, redirect_stdouts=True)
    assert (sys.stdout, logging.getLogger().handlers) == before
    logging.getLogger("celery.worker").info("started")
    assert lines(out)[0]["event"] == "started"
