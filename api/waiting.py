"""Holding an answer back until a job has ended, without asking the store again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import UUID

from litestar import Request

from api.services import Services
from jobstore.job import Job
from safelight.telemetry import get_logger

_log = get_logger(__name__)

R = TypeVar("R")
T = TypeVar("T")

CLIENT_GONE = 499  # as nginx logs it; nobody reads it


async def wait_for_end(services: Services, job: Job, limit_s: float, owner: UUID | None) -> Job:
    """The job at its end, or as it stands after ``limit_s`` seconds, or when the process is told to leave.

    The process's one reader of events says when there is something to look at, and many who wait for one job share the
    look. No connection to the store is held. Where no further answer of ``owner``, a key, may wait, this doesn't.
    """
    end = time.monotonic() + limit_s
    if job.state.terminal or limit_s <= 0 or (seats := services.tail.reserve_answer(owner)) is None:
        return job
    inbox = services.tail.subscribe(watched(job), seats)
    try:
        await services.tail.reading(min(limit_s, 2.0))
        job = await look(services, job)
        while not job.state.terminal and not services.tail.closed and (left := end - time.monotonic()) > 0:
            came = await inbox.wait(min(left, services.heartbeat_s))
            mail = inbox.drain()
            if not came or mail.changed or mail.overflowed:
                job = await look(services, job)
                inbox.job_ids = watched(job)
    finally:
        services.tail.unsubscribe(inbox)
    return job


def watched(job: Job) -> frozenset[Any]:
    """Whose events tell of the job: its own, and those of the job whose render it waits for."""
    return frozenset(known for known in (job.id, job.leader_id) if known is not None)


async def look(services: Services, job: Job) -> Job:
    """The job as it stands now; as it was, where the store can't be asked: the next event asks again."""
    try:
        return await services.shared.read(job.id, lambda: services.store.get(job.id))
    except Exception as error:  # the driver's errors differ by store
        _log.warning("job not read", action="waiting.not_read", job_id=str(job.id), error=type(error).__name__)
        return job


async def unless_gone(request: Request[Any, Any, Any], work: Coroutine[Any, Any, R], gone: T) -> R | T:
    """The result of ``work``, or ``gone`` as soon as the client hangs up. The request's body must have been read."""
    working = asyncio.ensure_future(work)
    hung_up = asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait([working, hung_up], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else gone
    finally:
        working.cancel()
        hung_up.cancel()
        await asyncio.wait([working, hung_up])  # who is told that the client is gone finds nobody listening for it


async def _hang_up(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def cancel(services: Services, job: Job) -> None:
    """Cancel a job whose client is gone, unless somebody else here waits for it. Never raises: the job then goes on."""
    if services.tail.listens(job.id):
        return
    try:
        settled = await services.store.cancel(job.id)
        services.ring(settled.ring)
        _log.info("job of a client that hung up canceled", action="waiting.canceled", job_id=str(job.id))
    except Exception as error:
        _log.warning("job not canceled", action="waiting.cancel_failed", job_id=str(job.id), error=type(error).__name__)
