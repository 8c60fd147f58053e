"""A small service that speaks OpenAI's images API over real HTTP, and does what a test says."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from safelight.config import ModelSettings, ProviderSettings


@dataclass
class Reply:
    """An answer: its status, its body (JSON, or bytes as they are), its headers."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


def picture(width: int = 64, height: int = 64, mode: str = "RGB", colour: Any = "red", form: str = "PNG") -> bytes:
    """A picture's file."""
    buffer = io.BytesIO()
    Image.new(mode, (width, height), colour).save(buffer, form)
    return buffer.getvalue()


def pictures(*files: bytes) -> dict[str, Any]:
    """The body of an answer with these pictures."""
    return {"created": 1, "data": [{"b64_json": base64.b64encode(file).decode()} for file in files]}


def refused(code: str | None, message: str = "no") -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


class Service:
    """Answers with ``replies`` in their order; after the last, with pictures of the size that is asked for."""

    def __init__(self, url: str) -> None:
        """``url`` is where it answers, with its ``/v1``."""
        self.url = url
        self.replies: list[Reply] = []
        self.seen: list[Seen] = []
        self.came = threading.Condition()
        self.pause_s = 0.0
        self.at_once = self.most_at_once = 0

    def answer(self, seen: Seen) -> Reply:
        """The next answer."""
        with self.came:
            self.seen.append(seen)
            self.came.notify_all()
            if self.replies:
                return self.replies.pop(0)
        width, height = (int(side) for side in str(seen.body["size"]).split("x"))
        return Reply(body=pictures(*[picture(width, height)] * seen.body.get("n", 1)))

    def enter(self) -> None:
        """A request is under way."""
        with self.came:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.pause_s)

    def leave(self) -> None:
        """It is answered."""
        with self.came:
            self.at_once -= 1

    def wait(self, count: int, limit_s: float = 20.0) -> None:
        """Until so many requests have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.seen) >= count, limit_s), f"{len(self.seen)} requests came"

    @property
    def keys(self) -> list[str]:
        """The idempotency keys of the requests for renders."""
        return [seen.headers["idempotency-key"] for seen in self.seen if seen.method == "POST"]


class QuietServer(ThreadingHTTPServer):
    """Clients may hang up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silence."""


@contextmanager
def serve() -> Iterator[Service]:
    """A service on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            service.enter()
            reply = service.answer(Seen(self.command, self.path, headers, json.loads(data) if data else None))
            service.leave()
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {
                "Content-Length": str(len(body)),
                "Content-Type": "application/json",
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _reply

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    service = Service(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def provider(service: Service, **changes: Any) -> ProviderSettings:
    """The settings of a provider that this service is."""
    fields = {"kind": "openai", "base_url": service.url, "model": "flux", "timeout_s": 20.0, **changes}
    return ProviderSettings(**fields)


def remote(service: Service, *, lane: str = "remote", price: str = "0.04", **changes: Any) -> ModelSettings:
    """A remote model that this service renders."""
    return ModelSettings(provider=provider(service, **changes), lane=lane, price=price, revision="remote")
