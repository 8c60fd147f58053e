"""A job's attempts."""

from __future__ import annotations

from typing import Any

from litestar import Request, get

from api.auth import LOOK, find_job, viewer
from api.openapi import JobId, ServicesDependency, answers
from api.operating.schemas import AttemptList
from api.operating.views import attempt_view
from jobstore.keys import Scope


@get("/jobs/{job_id:str}/attempts", opt=LOOK, summary="List a job's attempts", responses=answers(404))
async def list_attempts(job_id: JobId, request: Request[Any, Any, Any], services: ServicesDependency) -> AttemptList:
    """Each try to render the job: where, how long, what came of it, what it cost, and how full its batches were.

    Which worker it was, and which other jobs shared its steps, is told to keys with the scope observe.
    """
    job = await find_job(request, job_id)
    key = viewer(request)
    everything = key is None or key.allows(Scope.OBSERVE)
    found = await services.store.attempts(job.id)
    return AttemptList(data=tuple(attempt_view(attempt, everything=everything) for attempt in found))
