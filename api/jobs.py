"""Submit, read, list, cancel, retry and redrive jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.params import JSONBody, QueryParameter

from api.auth import ADMIN, READ, SUBMIT, actor, find_job, needs_model, viewer
from api.decoding import RedriveBody, SubmitBody
from api.dimensions import gather_dimensions
from api.idempotency import REPLAYED, IdempotencyKey, replay_of
from api.openapi import JobId, ServicesDependency, answers
from api.origins import wants_json
from api.preferences import preference_of
from api.problems import invalid
from api.resolve import names_no_seed, resolve
from api.schemas import JobList, JobView, ModelList, Redriven, RedriveRequest, SubmitRequest
from api.services import Services
from api.submitting import accept
from api.views import job_view, model_list
from api.waiting import unless_gone, wait_for_end
from api.wording import plainly, unknown
from jobstore.audit import AuditNote
from jobstore.job import JobState
from jobstore.live import WEBHOOKS_BELL
from jobstore.protocol import JobFilter, RedriveFilter

AnyRequest = Request[Any, Any, Any]

_LIST_PARAMETERS = ("state", "model", "limit", "cursor")


@post(
    "/jobs",
    status_code=202,
    dto=SubmitBody,
    return_dto=None,
    opt={**SUBMIT, "json": True},
    summary="Submit a job",
    responses=answers(400, 402, 404, 409, 413, 415, 422, 429, done=JobView),
)
async def submit_job(
    data: JSONBody[SubmitRequest],
    request: AnyRequest,
    services: ServicesDependency,
    idempotency_key: IdempotencyKey = None,
) -> Response[JobView]:
    """Hand in a prompt and get a ticket: 202 while there is something to render, 200 when the cache had it.

    With `Prefer: wait=N` the answer waits up to N seconds for the job's end: then 200.
    """
    del idempotency_key  # described here; how often it was sent is told by the headers alone
    dimensions = gather_dimensions(data.dimensions, request.headers.multi_items())
    replay = replay_of(data, dimensions, request.headers, services.settings.jobs)
    new = resolve(data, dimensions, viewer(request), services.settings, replay)
    job, replayed = await accept(services, new, seed_drawn=names_no_seed(data))
    preference = preference_of(request.headers)
    limit_s = preference.seconds(usual=0.0, most=services.settings.server.sync_wait_s)
    if limit_s:
        job = await unless_gone(request, wait_for_end(services, job, limit_s), job)
    applied = preference.applied(waited_s=limit_s, pending=True)
    return Response(
        job_view(job, services),
        status_code=200 if job.state is JobState.SUCCEEDED or (limit_s and job.state.terminal) else 202,
        headers={"Location": f"/v1/jobs/{job.id}", **applied} | (REPLAYED if replayed else {}),
    )


@get("/jobs/{job_id:str}", opt=READ, summary="Read a job", responses=answers(404))
async def read_job(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> JobView:
    """The job as it stands, with live progress while it runs."""
    return job_view(await find_job(request, job_id), services)


@get("/jobs", opt=READ, summary="List jobs", responses=answers(400))
async def list_jobs(
    request: AnyRequest,
    services: ServicesDependency,
    in_state: Annotated[JobState | None, QueryParameter(name="state", description="Only jobs in this state.")] = None,
    model: Annotated[
        str | None,
        QueryParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$", description="Only jobs of this model."),
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")] = 50,
    cursor: Annotated[
        str | None, QueryParameter(pattern=r"^[!-~]{1,500}$", description="`next_cursor` of the page before.")
    ] = None,
) -> JobList:
    """Jobs newest first: those of the key that asks, all of them for an admin key."""
    for name in request.query_params:
        if name not in _LIST_PARAMETERS:
            raise invalid(name[:100], unknown(name, _LIST_PARAMETERS, "query parameter"))
    key = viewer(request)
    where = JobFilter(
        state=in_state,
        model=_own_name(model, services),
        key_id=None if key is None or key.admin else key.id,
        limit=limit,
        cursor=cursor,
    )
    try:
        page = await services.store.list_jobs(where)
    except ValueError:
        raise invalid("cursor", plainly("cursor", "")) from None
    views = tuple(job_view(job, services) for job in page.jobs)
    return JobList(data=views, next_cursor=page.next_cursor)


@post("/jobs/{job_id:str}/cancel", status_code=200, opt=SUBMIT, summary="Cancel a job", responses=answers(404))
async def cancel_job(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> JobView:
    """Cancel; asking again changes nothing. A running job ends at its next step: watch its state."""
    job = await find_job(request, job_id)
    settled = await services.store.cancel(job.id)
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
    needs_model(viewer(request), job.request.model, services.settings.models)
    settled = await services.store.retry(job.id)
    services.ring(settled.ring)
    return job_view(settled.job, services)


@post(
    "/jobs/redrive",
    status_code=200,
    dto=RedriveBody,
    return_dto=None,
    opt=ADMIN,
    guards=[wants_json],
    summary="Retry many failed or dead jobs",
    responses=answers(400, 413, 415),
)
async def redrive_jobs(data: JSONBody[RedriveRequest], request: AnyRequest, services: ServicesDependency) -> Redriven:
    """Queue anew the failed or dead jobs that the filter names, those that ended first before others; for admins."""
    where = RedriveFilter(
        states=tuple(JobState(state) for state in data.states),
        lane=data.lane,
        model=_own_name(data.model, services),
        error_code=data.error_code,
        finished_after=data.finished_after,
        finished_before=data.finished_before,
    )
    redriven = await services.store.redrive(where, data.limit)
    services.ring(redriven.ring)
    filtered = {name: value for name, value in msgspec.to_builtins(data).items() if value is not None}
    details = {"count": len(redriven.job_ids), "filter": filtered}
    await services.store.audit(AuditNote(by=actor(request), action="jobs.redriven", target="jobs", details=details))
    return Redriven(count=len(redriven.job_ids), job_ids=redriven.job_ids)


@get("/models", opt=READ, summary="List models", responses=answers())
async def list_models(request: AnyRequest, services: ServicesDependency) -> ModelList:
    """The models on offer that the key may use, in OpenAI's form."""
    return model_list(services.settings, viewer(request))


def _own_name(model: str | None, services: Services) -> str | None:
    """A model's own name, where an alias is asked for; names of models that are gone stay as they are."""
    found = services.settings.find_model(model) if model else None
    return found[0] if found else model
