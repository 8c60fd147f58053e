"""A call becomes the HTTP request that it stands for, in this process: no socket, and nothing there twice.

So validation, keys, quotas, idempotency, errors, the access log, metrics and traces are REST's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from litestar.types import Message, Receive, Scope, Send

from api.frame import RPC
from safelight.telemetry import get_logger

_log = get_logger(__name__)

Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_PASSED = frozenset({
    "authorization", "x-api-key", "api-key", "x-bf-vk", "idempotency-key", "x-stainless-retry-count", "prefer",
    "traceparent", "tracestate", "x-request-id", "x-forwarded-for", "x-forwarded-proto", "origin", "sec-fetch-site",
})  # fmt: skip
_DIMENSION = "x-bf-dim-"
_LEAVING: set[asyncio.Future[None]] = set()  # the loop keeps none of its tasks alive


class Call(NamedTuple):
    """An HTTP request to be: ``rpc`` is the full name of the method that was called, for the log and the metrics."""

    rpc: str
    method: str
    path: str
    headers: Headers
    client: tuple[str, int] | None
    secure: bool = False
    query: bytes = b""
    body: bytes = b""


class Answer(NamedTuple):
    """What came of a call."""

    status: int
    headers: dict[str, str]
    body: bytes


def passed_on(metadata: Iterable[tuple[str, Any]]) -> Headers:
    """The metadata that means something here, as headers."""
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in metadata
        if isinstance(value, str) and (name in _PASSED or name.startswith(_DIMENSION))
    ]


def peer_of(text: str) -> tuple[str, int] | None:
    """Address and port out of gRPC's name for a peer, such as ``ipv6:%5B::1%5D:50051``; None for a local socket."""
    kind, _, place = unquote(text).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    try:
        parts = urlsplit(f"//{place}")
        address = (parts.hostname or "", parts.port or 0)
    except ValueError:
        return None
    return address


async def answer_to(app: Asgi, call: Call) -> Answer:
    """The whole answer to a call. Who leaves leaves it to be finished: a submit is not half done."""
    return await _heard(app, call, _Heard())


async def stream_of(app: Asgi, call: Call, each: Callable[[bytes], Awaitable[None]]) -> Answer:
    """The same of a stream: what is sent under 200 goes to ``each`` as it comes, and no more until that is done."""
    return await _heard(app, call, _Heard(each))


async def _heard(app: Asgi, call: Call, heard: _Heard) -> Answer:
    task = asyncio.ensure_future(app(_scope(call), _receiver(call.body, heard.over), heard.send))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        leaving = asyncio.ensure_future(heard.leave(task))
        _LEAVING.add(leaving)
        leaving.add_done_callback(_LEAVING.discard)
        raise
    return Answer(heard.status, heard.headers, b"".join(heard.parts))


class _Heard:
    """Takes in what the application sends; once nobody is there any more, without a word, as an HTTP server does."""

    def __init__(self, each: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self.status = 500
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.over = asyncio.Event()  # the whole answer was sent, or nobody waits for it
        self._each = each
        self._gone = False
        self._sending = asyncio.Lock()

    async def send(self, message: Message) -> None:
        if self._gone:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given: Iterable[tuple[bytes, bytes]] = message["headers"]
            self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in given}
        elif message["type"] == "http.response.body":
            if (body := message["body"]) and self._each is not None and self.status == 200:
                await self._pass_on(body, self._each)
            else:
                self.parts.append(body)
            if not message.get("more_body"):
                self.over.set()

    async def leave(self, task: asyncio.Future[None]) -> None:
        """Nobody waits for the answer: a stream is ended, between two of its parts, and so frees its place."""
        self._gone = True
        async with self._sending:
            self.over.set()
        with suppress(Exception):  # the application has logged it
            await task

    async def _pass_on(self, body: bytes, each: Callable[[bytes], Awaitable[None]]) -> None:
        async with self._sending:
            try:
                await each(body)
            except Exception as error:  # the connection is gone, as a rule: the call's end is on its way here
                _log.info("stream broke off", action="grpc.broke_off", error=type(error).__name__)
                self._gone = True
                self.over.set()


def _receiver(body: bytes, over: asyncio.Event) -> Receive:
    first: Any = {"type": "http.request", "body": body, "more_body": False}
    messages = iter((first,))

    async def receive() -> Any:
        message = next(messages, None)
        if message is None:
            await over.wait()
            return {"type": "http.disconnect"}
        return message

    return receive


def _scope(call: Call) -> Any:
    headers = [*call.headers]
    if call.body:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(call.body)).encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "2",
        "method": call.method,
        "scheme": "https" if call.secure else "http",
        "path": call.path,
        "raw_path": call.path.encode(),
        "query_string": call.query,
        "root_path": "",
        "headers": headers,
        "client": call.client,
        "server": None,
        "state": {},
        "extensions": {RPC: {"name": call.rpc}},
    }
