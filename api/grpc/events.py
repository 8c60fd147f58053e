"""Events of a job: from the frames of Server-Sent Events (WHATWG HTML, 9.2.6) to messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from google.protobuf.message import Message

from api.grpc.messages import filled

_PARTS = frozenset({"state", "progress", "preview", "done"})
_STATE = frozenset({"state", "at", "attempt", "reason", "error"})


class Frames:
    """Puts a stream together again, however it was cut."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._rest = b""
        self.ended = False

    def events(self, part: bytes) -> Iterator[Message]:
        """The events that are complete with this part. Our own frames: one line of data, lines end with LF."""
        *frames, self._rest = (self._rest + part).split(b"\n\n")
        for frame in frames:
            lines = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            name = lines.get(b"event", b"").decode()
            if not name:
                continue
            self.ended |= name == "done"
            yield _event(name, lines.get(b"id"), msgspec.json.decode(lines[b"data"]))


def _event(name: str, identity: bytes | None, data: dict[str, Any]) -> Message:
    values: dict[str, Any] = {"event": name, "id": None if identity is None else int(identity)}
    if name in _PARTS:
        values[name] = _state(data) if name == "state" else data
    return filled("WatchEvent", values)


def _state(data: dict[str, Any]) -> dict[str, Any]:
    more = {key: value for key, value in data.items() if key not in _STATE}
    return {**{key: value for key, value in data.items() if key in _STATE}, "details": more or None}
