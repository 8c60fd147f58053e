"""Trace contexts, and processes without OpenTelemetry."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from safelight.config import TelemetrySettings
from safelight.telemetry import traces
from safelight.telemetry.traces import endpoint_set, parse_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-fe", f"00-{TRACE}-{SPAN}-00"),
        (f"cc-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f" 00-{TRACE}-{SPAN}-01", None),
        (f"cc-{TRACE}-{SPAN}-01-{'x' * 100}", None),
        ("", None),
        (None, None),
    ],
)
def test_a_trace_context_is_read_as_the_standard_says(sent: str | None, kept: str | None) -> None:
    """Later versions by what they share with this one; only the sampled flag is passed on."""
    found = parse_traceparent(sent)
    assert (found.traceparent if found else None) == kept


def test_a_context_from_elsewhere_is_current_where_nobody_traces() -> None:
    """It goes into logs and on to others; what is told of it goes nowhere."""
    with traces.span("x", parent=f"00-{TRACE}-{SPAN}-01") as outer, traces.span("y") as inner:
        inner.set({"a": 1})
        inner.event("b")
        inner.fail("c")
        assert (traces.current(), inner.traceparent, outer.recorded) == (outer, f"00-{TRACE}-{SPAN}-01", False)
    assert traces.current().traceparent is None


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_says_where_traces_go(environ: dict[str, str], wanted: bool) -> None:
    """With the standard's own variables."""
    assert endpoint_set(environ) is wanted


def test_the_settings_turn_them_off() -> None:
    """Whatever the environment says."""
    traces.start_tracing(TelemetrySettings(traces="off"), "tests", environ=ENDPOINT)()
    assert traces._tracer is None


PROCESS = """
import json, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry" and BLOCKED:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
from safelight.config import LogSettings, TelemetrySettings
from safelight.telemetry import configure_logging, get_logger, traces
import api.app, actors.render, safelight.cli.server.worker
configure_logging(LogSettings())
stop = traces.start_tracing(TelemetrySettings(), "tests")
with traces.span("x", parent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
    get_logger("tests").info("here", action="tests.here")
stop()
print(json.dumps([name for name in sys.modules if name.startswith("opentelemetry")]))
"""


def run(blocked: bool, environ: dict[str, str]) -> tuple[list[str], list[dict[str, str]]]:
    """A process's modules of OpenTelemetry, and its log."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", f"BLOCKED = {blocked}\n{PROCESS}"],
        capture_output=True,
        text=True,
        check=True,
        env=clean | environ,
    )
    return json.loads(done.stdout), [json.loads(line) for line in done.stderr.splitlines()]


def test_without_an_endpoint_nothing_is_imported() -> None:
    """Whoever doesn't trace pays nothing, installed or not; the logs carry the trace of who asked."""
    imported, [line] = run(blocked=False, environ={})
    assert imported == []
    assert (line["trace_id"], line["span_id"]) == (TRACE, SPAN)


def test_without_the_extra_the_log_says_what_to_install() -> None:
    """And everything else works."""
    imported, lines = run(blocked=True, environ=ENDPOINT)
    assert imported == []
    assert [line["action"] for line in lines] == ["traces.extra_missing", "tests.here"]
    assert "safelight[otel]" in lines[0]["event"]
