"""One stream that tells open pages which of their parts to ask for anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from litestar import get
from litestar.response import Stream

from api.admin.gate import operator_of
from api.admin.rendering import AnyRequest
from api.auth import sharer
from api.openapi import ServicesDependency
from api.problems import ProblemError
from api.seating import Seats
from api.services import Services

EVERY_S = 1.0
"""The least time between two events of a kind."""
_BEATS = 3  # of these, between two beats
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@get("/live", media_type="text/event-stream")
async def watch(request: AnyRequest, services: ServicesDependency) -> Stream:
    """`jobs` when something happened to jobs, `beat` for what changes with time; `over` ends it with the session."""
    seats = services.tail.reserve(sharer(request))
    if seats is None:
        detail = "no further stream is taken at the moment"
        raise ProblemError(503, "too_many_streams", detail, headers={"Retry-After": "5"})
    return Stream(_ticks(request, services, seats), media_type="text/event-stream", headers=_HEADERS)


async def _ticks(request: AnyRequest, services: Services, seats: Seats) -> AsyncIterator[bytes]:
    """Frames until the session or the process ends. No event is due to a page that was loaded just now."""
    inbox = services.tail.subscribe(frozenset(), seats)  # counted among the streams, and woken when they are closed
    try:
        yield b"retry: 3000\nevent: hello\ndata: \n\n"
        known, beats = await _last_event(services), 0
        while True:
            await inbox.wait(EVERY_S)
            if services.tail.closed:
                break
            if await operator_of(request) is None:
                yield b"event: over\ndata: \n\n"
                break
            newest = await _last_event(services)
            beats = (beats + 1) % _BEATS
            if newest != known:
                known = newest
                yield b"event: jobs\ndata: \n\n"
            if beats == 0:
                yield b"event: beat\ndata: \n\n"
    finally:
        services.tail.unsubscribe(inbox)  # no await here: a canceled stream would never get past it


async def _last_event(services: Services) -> int:
    """The number of the newest event; -1 while the store can't be reached, so that pages show what they find."""
    try:
        return await services.shared.read("admin live", services.store.last_event)
    except asyncio.CancelledError:
        raise
    except Exception:
        return -1
