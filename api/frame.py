"""What goes around every request: its id, security headers, its span, one line in the access log, and one sample."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from typing import Any

import structlog
from litestar import Litestar
from litestar.types import HTTPScope, Message, Scope, Send

from api.tracing import note_answer, request_span
from safelight.telemetry import get_logger
from safelight.telemetry.metrics import REQUEST_SECONDS
from safelight.telemetry.traces import Span

_log = get_logger("api.access")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
RPC = "safelight.rpc"
"""The extension of a scope that a gRPC call became; ``name`` in it is the call's."""
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_STREAM = (b"content-type", b"text/event-stream")
_UNREAD_S = 60.0  # for which a client of a stream may leave unread what was sent to it
_IDS = (secrets.token_hex(8), itertools.count(1))


class Application(Litestar):
    """A Litestar application that frames every HTTP request, those that match no route included."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        rpc = scope.get("extensions", {}).get(RPC, {}).get("name")
        method = "GRPC" if rpc else scope["method"] if scope["method"] in _METHODS else "other"
        with request_span(scope, method, request_id) as span:
            seen = _Seen(scope, send, request_id, method, span, rpc)
            try:
                await super().__call__(scope, receive, seen.send)
            finally:
                seen.report()


class _Seen:
    """Looks at what is sent, and adds the headers."""

    def __init__(self, scope: HTTPScope, send: Send, request_id: str, method: str, span: Span, rpc: str | None) -> None:
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self._method = method
        self._span = span
        self._rpc = rpc
        self._start = time.perf_counter()
        self._status = 0
        self._transport: asyncio.WriteTransport | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = list(message.get("headers", ()))
            own = {name.lower() for name, _ in headers}
            headers.append((b"x-request-id", self._request_id.encode()))
            if self._span.recorded:
                headers.append((b"x-trace-id", self._span.trace_id.encode()))
            headers += [(name, value) for name, value in _SECURITY if name not in own]
            message = {**message, "headers": headers}
            if any(name.lower() == _STREAM[0] and value.startswith(_STREAM[1]) for name, value in headers):
                # uvicorn tells it nowhere else; over gRPC there is none, and HTTP/2 notices who is away
                self._transport = getattr(getattr(self._send, "__self__", None), "transport", None)
        if self._transport is None:
            await self._send(message)
        else:
            await self._send_in_time(message, self._transport)

    async def _send_in_time(self, message: Message, transport: asyncio.WriteTransport) -> None:
        """Cut the connection to a client that reads nothing: for the stream it is then as if the client had left."""
        try:
            async with asyncio.timeout(_UNREAD_S):
                await self._send(message)
        except TimeoutError:
            _log.info("stream cut off: its client reads nothing", action="api.cut_off", path=self._scope["path"][:200])
            transport.abort()

    def report(self) -> None:
        seconds = time.perf_counter() - self._start
        route = self._rpc or str(self._scope.get("path_template") or "")
        note_answer(self._span, self._method, route or None, self._status)
        REQUEST_SECONDS.labels(self._method, route or "none", str(self._status)).observe(seconds)
        _log.info(
            "request answered",
            action="api.request",
            method=self._method,
            path=self._rpc or self._scope["path"][:200],
            status=self._status,
            duration_ms=round(seconds * 1000, 1),
        )


def _request_id(scope: Scope) -> str:
    """The client's id if it is short and plain, else a fresh one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    prefix, numbers = _IDS
    return given.decode() if _REQUEST_ID.fullmatch(given) else f"{prefix}{next(numbers):016x}"
