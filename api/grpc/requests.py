"""A call becomes the HTTP request that it stands for, in this process: no socket, and nothing there twice.

So validation, keys, quotas, idempotency, errors, the access log, metrics and traces are REST's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from litestar.types import Message, Receive, Scope, Send

from api.frame import RPC

Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_PASSED = frozenset({
    "authorization", "x-api-key", "api-key", "x-bf-vk", "idempotency-key", "x-stainless-retry-count", "prefer",
    "traceparent", "tracestate", "x-request-id", "x-forwarded-for", "x-forwarded-proto", "origin", "sec-fetch-site",
})  # fmt: skip
_DIMENSION = "x-bf-dim-"


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
    heard = _Heard()
    task = asyncio.ensure_future(app(_scope(call), _receiver(call.body, heard.over), heard.send))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        heard.over.set()  # what only waits for somebody's sake stops
        task.add_done_callback(_noted)
        raise
    return Answer(heard.status, heard.headers, b"".join(heard.parts))


async def stream_of(app: Asgi, call: Call, each: Callable[[bytes], Awaitable[None]]) -> Answer:
    """The same of a stream: what is sent under 200 goes to ``each`` as it comes, and no more until that is done."""
    heard = _Heard(each)
    await app(_scope(call), _receiver(call.body, heard.over), heard.send)
    return Answer(heard.status, heard.headers, b"".join(heard.parts))


class _Heard:
    """Takes in what the application sends."""

    def __init__(self, each: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self.status = 500
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.over = asyncio.Event()  # the whole answer was sent, or nobody waits for it
        self._each = each

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given: Iterable[tuple[bytes, bytes]] = message["headers"]
            self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in given}
        elif message["type"] == "http.response.body":
            if (body := message["body"]) and self._each is not None and self.status == 200:
                await self._each(body)
            else:
                self.parts.append(body)
            if not message.get("more_body"):
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


def _noted(task: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()  # the application has logged it
