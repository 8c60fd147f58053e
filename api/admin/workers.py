"""Workers: how they stand, draining and resuming them."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Template

from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.openapi import ServicesDependency
from api.operating.views import worker_view
from api.operating.workers import drain_named, resume_named, worker_named
from api.problems import ProblemError
from api.schemas import JobView
from api.services import Services
from api.views import job_view
from jobstore.job import JobState
from jobstore.operating.jobs import JobFilter
from jobstore.operating.workers import WorkerStatus
from safelight import __version__

_PATH = "/admin/workers"
_JOBS = 10


@get("/workers")
async def show_all(request: AnyRequest, services: ServicesDependency) -> Template:
    """All workers that are not forgotten yet."""
    workers = [worker_view(status) for status in await services.store.worker_statuses()]
    return await page(
        request,
        "workers.html",
        title="Workers",
        workers=workers,
        silent=[worker for worker in workers if worker.state == "silent"],
        older=[worker for worker in workers if worker.version not in ("", __version__)],
    )


@get("/workers/{worker_id:str}")
async def show(worker_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """One worker, with what it renders and what went wrong on it."""
    try:
        worker = await worker_named(services, worker_id)
    except ProblemError:
        detail = "there is no such worker: it has left, or has been silent for a day and is forgotten"
        raise ProblemError(404, "worker_not_found", detail) from None
    return await page(
        request,
        "worker.html",
        title=f"Worker on {worker.host}",
        worker=worker_view(worker),
        running=await _jobs(services, worker, JobState.RUNNING),
        spoilt=await _jobs(services, worker, JobState.FAILED, JobState.DEAD),
    )


@post("/workers/{worker_id:str}/drain")
async def drain(worker_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Let it finish what it holds and take nothing more."""
    worker = await drain_named(services, worker_id, actor(request))
    return done(request, f"{_PATH}/{worker.id}", f"The worker on {worker.host} takes no more jobs.")


@post("/workers/{worker_id:str}/resume")
async def resume(worker_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Let it take jobs again."""
    worker = await resume_named(services, worker_id, actor(request))
    return done(request, f"{_PATH}/{worker.id}", f"The worker on {worker.host} takes jobs again.")


async def _jobs(services: Services, worker: WorkerStatus, *states: JobState) -> list[JobView]:
    """The newest jobs of the worker in these states."""
    found = await services.store.list_jobs(JobFilter(worker_id=worker.id, states=states, limit=_JOBS))
    return [job_view(job, services) for job in found.jobs]


WORKER_ROUTES = (show_all, show, drain, resume)
