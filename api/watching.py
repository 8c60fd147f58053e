"""Many jobs' events in one stream: browsers open six connections to a host, and people have more jobs than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, get
from litestar.params import QueryParameter
from litestar.response import Stream

from api.auth import LOOK, may_stay, owns, sees, sharer, viewer
from api.events import STREAM_HEADERS, JobStream, frame_of, too_many_streams
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.seating import Seats
from api.services import Services
from jobstore.job import Job

MAX_WATCHED = 50
_ROOM = 64  # frames that wait for a slow reader; behind them each job's own inbox is bounded


@get(
    "/jobs/events",
    opt=LOOK,
    summary="Watch many jobs",
    media_type="text/event-stream",
    responses=answers(400),
)
async def watch_jobs(
    request: Request[Any, Any, Any],
    services: ServicesDependency,
    ids: Annotated[
        str,
        QueryParameter(description=f"Ids of jobs, 1 to {MAX_WATCHED}, with commas between them.", max_length=2000),
    ],
) -> Stream:
    """The events of `GET /v1/jobs/{id}/events`, for several jobs at once: each one's data has the `job_id` too.

    `gone` tells of an id that there is no job of. No event has an `id:`; who comes back begins with each job's first.
    The stream ends with the last of its jobs.
    """
    jobs, gone = await _find(request, _ids_of(ids))
    seats = services.tail.reserve(sharer(request), len(jobs))
    if seats is None:
        raise too_many_streams()
    streams = [_stream_of(services, request, job, seats) for job in jobs]
    return Stream(merged(streams, gone), media_type="text/event-stream", headers=STREAM_HEADERS)


async def merged(streams: Sequence[JobStream], gone: Sequence[str] = ()) -> AsyncIterator[bytes]:
    """The frames of all ``streams`` as they come, until each has ended; before them, what is ``gone``."""
    for job_id in gone:
        yield _named(job_id, "gone", {})
    frames: asyncio.Queue[bytes | None] = asyncio.Queue(_ROOM)
    tasks = [asyncio.create_task(_pump(stream, frames)) for stream in streams]
    left = len(tasks)
    try:
        while left:
            frame = await frames.get()
            if frame is None:
                left -= 1
            else:
                yield frame
    finally:  # no await here: a canceled stream would never get past it
        for task in tasks:
            task.cancel()


async def _pump(stream: JobStream, frames: asyncio.Queue[bytes | None]) -> None:
    async with aclosing(stream.frames()) as own:
        async for frame in own:
            await frames.put(frame)
    await frames.put(None)


def _stream_of(services: Services, request: Request[Any, Any, Any], job: Job, seats: Seats) -> JobStream:
    name = str(job.id)
    return JobStream(
        services,
        job,
        0,
        lambda: may_stay(request, job),
        seats,
        lambda event, data, _seq: _named(name, event, data),
        with_path=owns(viewer(request), job.key_id),
    )


def _named(job_id: str, event: str, data: object) -> bytes:
    return frame_of(event, {"job_id": job_id, **msgspec.to_builtins(data)}, None)


def _ids_of(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.lower().split(",")))
    if not (0 < len(found) <= MAX_WATCHED and all(map(_is_id, found))):
        raise invalid("ids", f"ids must be 1 to {MAX_WATCHED} ids of jobs, with commas between them")
    return found


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


async def _find(request: Request[Any, Any, Any], ids: Sequence[str]) -> tuple[list[Job], list[str]]:
    """The jobs that the request's key may see, and the ids of which there is none for it."""
    services: Services = request.app.state.services
    found = await services.store.get_many([UUID(job_id) for job_id in ids])
    seen = {str(job.id): job for job in found if sees(request, job.key_id)}
    return [seen[job_id] for job_id in ids if job_id in seen], [job_id for job_id in ids if job_id not in seen]
