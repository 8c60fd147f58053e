"""One job: all that is known of it, and what can be done about it."""

from __future__ import annotations

from datetime import datetime

from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Template
from msgspec import Struct

from api.admin.advice import advice_for
from api.admin.jobs import PATH
from api.admin.rendering import AnyRequest, done, page
from api.admin.webhooks import address_for
from api.auth import actor, parse_job_id
from api.openapi import ServicesDependency
from api.operating.views import attempt_view
from api.problems import ProblemError
from api.services import Services
from api.views import job_view
from api.webhook_views import delivery_view
from jobstore.errors import JobNotFoundError, KeyNotFoundError
from jobstore.job import Job, JobEvent
from jobstore.keys import ApiKey
from jobstore.live import WEBHOOKS_BELL
from jobstore.operating.jobs import UNFINISHED, JobFilter
from jobstore.webhooks.model import DeliveryFilter

_ATTEMPTS = 50
_EVENTS = 200
_DELIVERIES = 20
_PLAIN = frozenset({"state", "attempt", "reason", "error"})


class Moment(Struct, frozen=True, kw_only=True):
    """An event as the timeline shows it: ``words`` are what it has to tell beside the state."""

    at: datetime
    state: str
    words: tuple[str, ...]
    error: str


@get("/jobs/{job_id:str}")
async def show(job_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """Everything about one job."""
    store = services.store
    job = await found(services, job_id)
    attempts = await store.attempts(job.id)
    events = await store.events(job.id)
    deliveries = await store.deliveries(DeliveryFilter(all_keys=True, job_id=job.id, limit=_DELIVERIES))
    return await page(
        request,
        "job.html",
        title=f"Job …{str(job.id)[-8:]}",
        job=job,
        view=job_view(job, services),
        key=await _key_of(services, job),
        hook=address_for(request, job.webhook.url) if job.webhook else None,
        advice=advice_for(job.error.code) if job.error else "",
        trace_id=job.traceparent.split("-")[1] if job.traceparent else None,
        attempts=[attempt_view(attempt, everything=True) for attempt in attempts[-_ATTEMPTS:]],
        timeline=[_moment(event) for event in events[-_EVENTS:]],
        deliveries=[delivery_view(delivery) for delivery in deliveries.deliveries],
        ended=job.state.terminal,
    )


@post("/jobs/{job_id:str}/cancel")
async def cancel(job_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Cancel it, as one of many would be: so it is in the audit log."""
    job = await found(services, job_id)
    where = JobFilter(text=str(job.id), states=UNFINISHED)
    canceled = await services.store.cancel_jobs(where, 1, actor(request))
    services.ring([*canceled.ring, *([WEBHOOKS_BELL] if canceled.job_ids else [])])
    if not canceled.job_ids:
        return done(request, _path(job), "It has ended by now, or is asked to stop already.", kind="info")
    return done(request, _path(job), "The job is canceled; one that runs ends at its next step.")


@post("/jobs/{job_id:str}/retry")
async def retry(job_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Queue it anew, with fresh attempts."""
    job = await found(services, job_id)
    settled = await services.store.retry(job.id, actor(request))
    services.ring(settled.ring)
    return done(request, _path(job), "The job is queued anew, with fresh attempts.")


async def found(services: Services, job_id: str) -> Job:
    """The job of that id. Raises ProblemError."""
    try:
        return await services.store.get(parse_job_id(job_id))
    except (ProblemError, JobNotFoundError):
        detail = "there is no job with this id: it is mistyped, or the job was deleted by age"
        raise ProblemError(404, "job_not_found", detail) from None


def _path(job: Job) -> str:
    return f"{PATH}/{job.id}"


async def _key_of(services: Services, job: Job) -> ApiKey | None:
    """The job's key; None where it has none, or that is forgotten."""
    if job.key_id is None:
        return None
    try:
        return await services.store.get_key(job.key_id)
    except KeyNotFoundError:
        return None


def _moment(event: JobEvent) -> Moment:
    data = event.data
    attempt, error = data.get("attempt"), data.get("error") or {}
    words = [str(data["reason"])] if data.get("reason") else []
    if attempt:
        words.append(f"{attempt} {'attempt' if attempt == 1 else 'attempts'} so far")
    words += [f"{name.replace('_', ' ')} {value}" for name, value in data.items() if name not in _PLAIN]
    return Moment(
        at=event.at,
        state=str(data.get("state", event.kind)),
        words=tuple(words),
        error=": ".join(str(error[name]) for name in ("code", "message") if error.get(name)),
    )


JOB_ROUTES = (show, cancel, retry)
