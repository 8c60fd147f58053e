"""Workers: how they stand, and draining them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, post
from litestar.params import PathParameter

from api.auth import ADMIN, OBSERVE, actor
from api.openapi import ServicesDependency, answers
from api.operating.schemas import WorkerList, WorkerView
from api.operating.views import worker_view
from api.problems import ProblemError
from api.services import Services
from jobstore.audit import Actor
from jobstore.errors import WorkerNotFoundError
from jobstore.operating.workers import WorkerStatus

AnyRequest = Request[Any, Any, Any]
WorkerId = Annotated[str, PathParameter(description="The worker's id.")]


@get("/workers", opt=OBSERVE, summary="List workers", responses=answers())
async def list_workers(services: ServicesDependency) -> WorkerList:
    """All workers that have not left, silent ones too: device, memory, models, jobs held, and how busy they are."""
    return WorkerList(data=tuple(worker_view(status) for status in await services.store.worker_statuses()))


@get("/workers/{worker_id:str}", opt=OBSERVE, summary="Read a worker", responses=answers(404))
async def read_worker(worker_id: WorkerId, services: ServicesDependency) -> WorkerView:
    """One worker."""
    return worker_view(await worker_named(services, worker_id))


@post("/workers/{worker_id:str}/drain", status_code=200, opt=ADMIN, summary="Drain a worker", responses=answers(404))
async def drain_worker(worker_id: WorkerId, request: AnyRequest, services: ServicesDependency) -> WorkerView:
    """Let the worker claim nothing more and finish what it holds: then it is `drained`. Twice is as once."""
    return worker_view(await drain_named(services, worker_id, actor(request)))


@post("/workers/{worker_id:str}/resume", status_code=200, opt=ADMIN, summary="Resume a worker", responses=answers(404))
async def resume_worker(worker_id: WorkerId, request: AnyRequest, services: ServicesDependency) -> WorkerView:
    """Let a draining worker claim again; where it doesn't drain, nothing changes."""
    return worker_view(await resume_named(services, worker_id, actor(request)))


async def worker_named(services: Services, worker_id: str) -> WorkerStatus:
    """The worker of that id. Raises ProblemError."""
    try:
        return await services.store.worker_status(_id_of(worker_id))
    except WorkerNotFoundError:
        raise worker_not_found() from None


async def drain_named(services: Services, worker_id: str, by: Actor) -> WorkerStatus:
    """Ask the worker of that id to claim no more. Raises ProblemError."""
    try:
        return await services.store.drain_worker(_id_of(worker_id), by)
    except WorkerNotFoundError:
        raise worker_not_found() from None


async def resume_named(services: Services, worker_id: str, by: Actor) -> WorkerStatus:
    """Let the worker of that id claim again. Raises ProblemError."""
    try:
        status = await services.store.resume_worker(_id_of(worker_id), by)
    except WorkerNotFoundError:
        raise worker_not_found() from None
    services.ring(status.lanes)  # bells that it let pass are with others, or lost
    return status


def worker_not_found() -> ProblemError:
    """The 404 of a worker that is not there."""
    detail = "there is no such worker, or it has left; those there are: GET /v1/workers, or safelight workers ls"
    return ProblemError(404, "worker_not_found", detail, field="id")


def _id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise worker_not_found() from None
