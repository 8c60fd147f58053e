"""Logs are JSON lines with bound ids, and hold no secret. Each test is a process: logging is a process's own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from safelight.telemetry.throttle import Throttle

PREAMBLE = """
import structlog
from safelight.config import LogSettings
from safelight.telemetry import configure_logging, get_logger
configure_logging(LogSettings())
log = get_logger("tests.logs")
"""


def lines_of(program: str) -> list[dict[str, Any]]:
    """What a process that runs ``program`` logs."""
    done = subprocess.run([sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_line_carries_action_and_bound_ids() -> None:
    """Bound once, in every line."""
    [line] = lines_of(
        'with structlog.contextvars.bound_contextvars(job_id="j", worker_id="w"):\n'
        '    log.info("a job was claimed", action="render.claimed", lane="default")'
    )
    assert (line["action"], line["job_id"], line["worker_id"]) == ("render.claimed", "j", "w")
    assert (line["logger"], line["level"], line["lane"]) == ("tests.logs", "info", "default")


def test_a_secret_is_redacted() -> None:
    """Whoever logs a key by mistake."""
    [line] = lines_of('log.info("hello", action="x", api_key="sl_secret", Authorization="Bearer sl_secret")')
    assert "sl_secret" not in json.dumps(line)


def test_a_traceback_leaves_locals_out() -> None:
    """They hold prompts and keys."""
    [line] = lines_of(
        'def fail(password):\n    raise ValueError("it broke")\n'
        'try:\n    fail("hunter2")\nexcept ValueError:\n    log.exception("it failed", action="x")'
    )
    assert "it broke" in json.dumps(line)
    assert "hunter2" not in json.dumps(line)


def test_other_libraries_log_in_the_same_form() -> None:
    """The standard library's loggers too."""
    [line] = lines_of('import logging\nlogging.getLogger("other").warning("disk %s", "full")')
    assert (line["event"], line["logger"], line["level"]) == ("disk full", "other", "warning")


def test_trouble_that_lasts_is_told_now_and_then() -> None:
    """At once when new or changed, else every so many seconds; the end of it is told once."""
    now = [0.0]
    throttle = Throttle(every_s=30, clock=lambda: now[0])
    assert [throttle.due("refused"), throttle.due("refused"), throttle.due("lost")] == [True, False, True]
    now[0] = 30.0
    assert throttle.due("refused")
    assert [throttle.over(), throttle.over(), throttle.due("refused")] == [True, False, True]


def test_pika_does_not_log_what_it_raises() -> None:
    """A broker that is away would fill the log ten times a second."""
    assert lines_of('import logging\nlogging.getLogger("pika.adapters.x").error("refused")') == []


def test_libraries_write_no_lines_of_their_own() -> None:
    """Those that bring a handler with them, too; warnings as well; and none quotes a prompt."""
    lines = lines_of(
        "import logging, sys, warnings\n"
        'library = logging.getLogger("transformers")\n'
        "library.addHandler(logging.StreamHandler())\n"
        "library.propagate = False\n"
        'logging.getLogger("transformers.models").warning("The following part of your input was truncated because "\n'
        "    \"CLIP can only handle sequences up to 77 tokens: ['a secret\\nstar']\")\n"
        'logging.getLogger("uvicorn.error").warning("slow %s", "request")\n'
        'warnings.warn("an old way")\n'
    )
    assert [line["logger"] for line in lines] == ["transformers.models", "uvicorn.error", "py.warnings"]
    assert lines[0]["event"].endswith("up to 77 tokens")
    assert lines[1]["event"] == "slow request"


def test_what_libraries_warn_of_at_every_start_is_information() -> None:
    """Whatever else the same loggers warn of stays a warning; where only warnings are asked for, it is not told."""
    program = (
        "import logging\n{level}\n"
        'library = logging.getLogger("torchao")\n'
        'library.warning("Failed to load %s: it is for a GPU", "/x/_C.abi3.so")\n'
        'library.warning("the weights are broken")\n'
    )
    first, second = lines_of(program.format(level=""))
    assert (first["level"], first["event"]) == ("info", "Failed to load /x/_C.abi3.so: it is for a GPU")
    assert second["level"] == "warning"
    [only] = lines_of(program.format(level="logging.getLogger().setLevel(logging.WARNING)"))
    assert only == {**second, "timestamp": only["timestamp"]}


def test_a_secret_among_dimensions_is_redacted() -> None:
    """A name says what it is, one level down as well."""
    [line] = lines_of('log.info("hello", action="x", dimensions={"team": "a", "api_key": "sl_secret"})')
    assert line["dimensions"] == {"team": "a", "api_key": "[redacted]"}
