"""Follows a job's event stream over broken connections."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from safelight.cli.client.http import Client, away, check, job_path
from safelight.cli.exits import UnreachableError

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

_READ_LIMIT_S = 60.0  # heartbeats come every 15 s
_TRIES = 8
_LONGEST_PAUSE_S = 10.0


class Event(NamedTuple):
    """``state``, ``progress``, ``done`` or ``resync``, and its data."""

    kind: str
    data: dict[str, Any]


def follow(client: Client, job_id: str) -> Iterator[Event]:
    """The job's events until ``done``. A broken stream goes on after the last id that was seen.

    Raises RefusedError, and UnreachableError when the server stays away.
    """
    stream = _Stream(client, job_id)
    failures = 0
    while True:
        seen = stream.seen
        try:
            yield from stream.read()
            error: Exception = UnreachableError("the server ended the stream before the job was done")
        except httpx.HTTPError as lost:
            error = away(client.url, lost)
        except UnreachableError as busy:
            error = busy
        if stream.ended:
            return
        failures = 1 if stream.seen > seen else failures + 1
        if failures >= _TRIES:
            raise error
        time.sleep(min(_LONGEST_PAUSE_S, stream.retry_s * failures))


class _Stream:
    """What has to be remembered from one connection to the next."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._path = job_path(job_id) + "/events"
        self._last_id = ""
        self.retry_s = 1.0
        self.seen = 0
        self.ended = False

    def read(self) -> Iterator[Event]:
        """Events of one connection."""
        from httpx_sse import EventSource, SSEError

        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        timeout = httpx.Timeout(_READ_LIMIT_S, connect=5.0)
        with self._client.http.stream("GET", self._path, headers=headers, timeout=timeout) as response:
            if not response.is_success:
                response.read()
                check(response, self._client.url)
            try:
                for sse in EventSource(response).iter_sse():
                    event = Event(sse.event, dict(json.loads(sse.data))) if sse.data else None
                    self._note(sse)
                    if event is not None:
                        yield event
                    if self.ended:
                        return
            except (SSEError, ValueError) as error:
                raise UnreachableError(f"{self._client.url} sends no event stream") from error

    def _note(self, sse: ServerSentEvent) -> None:
        self._last_id = sse.id or self._last_id
        self.retry_s = sse.retry / 1000 if sse.retry else self.retry_s
        self.ended = sse.event == "done"
        self.seen += bool(sse.data)
