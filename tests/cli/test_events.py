"""Following a job over broken connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from safelight.cli.client import events
from safelight.cli.client.events import follow
from safelight.cli.client.http import Client
from safelight.cli.exits import RefusedError, UnreachableError

HEAD = "retry: 1\n\n"


class Scripted(BaseHTTPRequestHandler):
    """Answers each connection with the next part of the script, and then drops it."""

    script: ClassVar[list[tuple[int, str]]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """One connection."""
        self.asked.append(self.headers.get("Last-Event-ID", ""))
        status, body = self.script.pop(0) if self.script else (503, "{}")
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if status == 200 else "application/problem+json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a scripted server; pauses between two tries are cut short."""
    monkeypatch.setattr(events, "_LONGEST_PAUSE_S", 0.001)
    Scripted.asked.clear()
    Scripted.script.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with Client(f"http://127.0.0.1:{server.server_port}") as client:
        yield client
    server.shutdown()
    server.server_close()


def test_a_broken_stream_goes_on_after_the_last_event(client: Client) -> None:
    """The id of the last durable event is sent along; nothing is told twice."""
    Scripted.script[:] = [
        (200, HEAD + 'event: state\nid: 5\ndata: {"state": "queued"}\n\n'),
        (503, '{"detail": "starting"}'),
        (200, HEAD + 'event: progress\ndata: {"step": 1}\n\n: heartbeat\n\n'),
        (200, HEAD + 'event: done\nid: 9\ndata: {"state": "succeeded"}\n\nevent: state\nid: 10\ndata: {}\n\n'),
    ]
    assert [event.kind for event in follow(client, "x")] == ["state", "progress", "done"]
    assert Scripted.asked == ["", "5", "5", "5"]


def test_a_server_that_stays_away_is_given_up(client: Client) -> None:
    """After some tries, with its own words."""
    Scripted.script[:] = [(503, '{"detail": "no further stream"}')] * 50
    with pytest.raises(UnreachableError, match="no further stream"):
        list(follow(client, "x"))
    assert len(Scripted.asked) == events._TRIES


def test_a_refusal_is_told_at_once(client: Client) -> None:
    """A job that doesn't exist will not exist a second later."""
    Scripted.script[:] = [(404, '{"detail": "no job with that id"}')]
    with pytest.raises(RefusedError, match="no job with that id"):
        list(follow(client, "x"))
    assert len(Scripted.asked) == 1


def test_a_page_that_is_no_stream_is_told(client: Client) -> None:
    """Somebody else's server."""
    Scripted.script[:] = [(200, "event: state\ndata: not json\n\n")] * 50
    with pytest.raises(UnreachableError, match="no event stream"):
        list(follow(client, "x"))
