"""Submit, read, cancel and retry jobs."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get, post

from api.auth import LOOK, SUBMIT, actor_for, find_job, needs_model, owns, sharer, viewer
from api.idempotency import IdempotencyKey
from api.openapi import JobId, ServicesDependency, answers
from api.preferences import preference_of
from api.schemas import JobView, ModelList
from api.submit_body import DescribedSubmit, submit_body
from api.submitting import submit_headers
from api.views import job_view, model_list
from api.waiting import unless_gone, wait_for_end
from jobstore.job import JobState
from jobstore.live import WEBHOOKS_BELL

AnyRequest = Request[Any, Any, Any]


@post(
    "/",
    status_code=202,
    opt={**SUBMIT, "json": True},
    operation_class=DescribedSubmit,
    summary="Submit a job",
    responses=answers(400, 402, 404, 408, 409, 413, 415, 422, 429, done=JobView),
)
async def submit_job(
    request: AnyRequest, services: ServicesDependency, idempotency_key: IdempotencyKey = None
) -> Response[JobView]:
    """Hand in a prompt and get a ticket: 202 while there is something to render, 200 when the cache had it.

    With `image` the render begins from that picture. With `Prefer: wait=N` the answer waits up to N seconds for the
    job's end: then 200.
    """
    del idempotency_key  # described here; how often it was sent is told by the headers alone
    accepted = await submit_body(request, services)
    job = accepted.job
    preference = preference_of(request.headers)
    limit_s = preference.seconds(usual=0.0, most=services.settings.server.sync_wait_s)
    if limit_s:
        job = await unless_gone(request, wait_for_end(services, job, limit_s, sharer(request)), job)
    applied = preference.applied(waited_s=limit_s, pending=True)
    return Response(
        job_view(job, services),
        status_code=200 if job.state is JobState.SUCCEEDED or (limit_s and job.state.terminal) else 202,
        headers={"Location": f"/v1/jobs/{job.id}", **applied, **submit_headers(services, accepted)},
    )


@get("/jobs/{job_id:str}", opt=LOOK, summary="Read a job", responses=answers(404))
async def read_job(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> JobView:
    """The job as it stands, with live progress while it runs."""
    job = await find_job(request, job_id)
    return job_view(job, services, with_path=owns(viewer(request), job.key_id))


@post("/jobs/{job_id:str}/cancel", status_code=200, opt=SUBMIT, summary="Cancel a job", responses=answers(404))
async def cancel_job(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> JobView:
    """Cancel; asking again changes nothing. A running job ends at its next step: watch its state."""
    job = await find_job(request, job_id)
    settled = await services.store.cancel(job.id, actor_for(request, job.key_id))
    services.ring([*settled.ring, *([WEBHOOKS_BELL] if job.webhook else [])])
    return job_view(settled.job, services)


@post(
    "/jobs/{job_id:str}/retry",
    status_code=200,
    opt=SUBMIT,
    summary="Retry a failed or dead job",
    responses=answers(402, 404, 409, 429),
)
async def retry_job(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> JobView:
    """Queue a failed or dead job anew, with fresh attempts; 409 in any other state."""
    job = await find_job(request, job_id)
    asked = job.request.canary_for or job.request.model
    needs_model(viewer(request), asked, services.settings.models)
    settled = await services.store.retry(job.id, actor_for(request, job.key_id))
    services.ring(settled.ring)
    return job_view(settled.job, services)


@get("/models", opt=LOOK, summary="List models", responses=answers())
async def list_models(request: AnyRequest, services: ServicesDependency) -> ModelList:
    """The models on offer that the key may use, in OpenAI's form."""
    return model_list(services.settings, viewer(request))
