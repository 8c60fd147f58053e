"""Logs are JSON lines with bound ids, and hold no secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from safelight.config import LogSettings
from safelight.telemetry import configure_logging, get_logger


@pytest.fixture(autouse=True)
def own_logging(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """JSON to the captured standard error for the test, and the handlers of before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(LogSettings())
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_carries_action_and_bound_ids(capfd: pytest.CaptureFixture[str]) -> None:
    """Bound once, in every line."""
    with structlog.contextvars.bound_contextvars(job_id="j", worker_id="w"):
        get_logger("tests.logs").info("a job was claimed", action="render.claimed", lane="default")
    line = json.loads(capfd.readouterr().err)
    assert (line["action"], line["job_id"], line["worker_id"]) == ("render.claimed", "j", "w")
    assert (line["logger"], line["level"], line["lane"]) == ("tests.logs", "info", "default")


def test_secrets_and_locals_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a field that is a secret nor a local variable of a traceback."""
    password = "hunter2-in-a-local"

    def fail(given: str) -> None:
        raise ValueError(len(given))

    get_logger("tests.logs").info("hello", action="x", api_key="sl_secret")
    try:
        fail(password)
    except ValueError:
        get_logger("tests.logs").exception("it failed", action="x")
    text = capfd.readouterr().err
    assert "sl_secret" not in text
    assert password not in text
    assert "ValueError" in text
