"""A real HTTP server that receives webhooks, and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

LIMIT_S = 20.0


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers 204, or in order what ``answers`` holds: a status, or a status with headers. Status 0 hangs up."""

    def __init__(self) -> None:
        self.answers: list[int | tuple[int, dict[str, str]]] = []
        self.received: list[Received] = []
        self.url = ""
        self._arrived = threading.Condition()

    def note(self, received: Received) -> tuple[int, dict[str, str]]:
        """Keep a request; what to answer."""
        with self._arrived:
            self.received.append(received)
            answer = self.answers.pop(0) if self.answers else 204
            self._arrived.notify_all()
        return answer if isinstance(answer, tuple) else (answer, {})

    def wait(self, count: int = 1) -> list[Received]:
        """All requests, once there are ``count``."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count, LIMIT_S), self.received
            return list(self.received)


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """A receiver on loopback."""
    here = Receiver()

    class Handler(BaseHTTPRequestHandler):
        """Hands requests to the receiver."""

        def do_POST(self) -> None:
            """Read it, and answer."""
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more = here.note(Received(self.path, headers, body))
            if status == 0:
                self.connection.close()
                return
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    here.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
