"""The two ways in which Bifrost's clients submit and poll: by headers on the ordinary path, and under ``/async``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from litestar import Request

from api.auth import find_job
from api.openai.answering import USUAL
from api.openai.schemas import AsyncAnswer
from api.problems import invalid, not_found
from jobstore.job import Job, JobState

ASYNC = "x-bf-async"
ASYNC_ID = "x-bf-async-id"
RESULT_TTL = "x-bf-async-job-result-ttl"

_NO = ("", "0", "false")
_SECONDS = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_LONGEST_TTL_S = 2_592_000  # thirty days: pictures are kept no longer, where the settings don't say otherwise
_STATUS = {
    JobState.SCHEDULED: "pending",
    JobState.QUEUED: "pending",
    JobState.RUNNING: "processing",
    JobState.SUCCEEDED: "completed",
}


def wants_async(request: Request[Any, Any, Any]) -> bool:
    """True where ``x-bf-async`` says anything but no."""
    return request.headers.get(ASYNC, "").strip().lower() not in _NO


def asked_id(request: Request[Any, Any, Any]) -> str | None:
    """The id of the job that the request polls; None where it doesn't."""
    return request.headers.get(ASYNC_ID, "").strip() or None


def result_ttl(request: Request[Any, Any, Any]) -> int:
    """For how many seconds from the job's end the result can be polled. Raises ProblemError."""
    text = request.headers.get(RESULT_TTL, "").strip()
    if not text:
        return USUAL.keep_s
    if not _SECONDS.fullmatch(text) or int(text) > _LONGEST_TTL_S:
        raise invalid(RESULT_TTL, f"{RESULT_TTL} must be a whole number of seconds from 1 to {_LONGEST_TTL_S}")
    return int(text)


async def polled_job(request: Request[Any, Any, Any], job_id: str) -> Job:
    """The job that is polled. One that is missing, another key's, of another route or past its time is one 404."""
    job = await find_job(request, job_id)
    expires = expires_at(job)
    if job.request.answer is None or (expires is not None and expires <= datetime.now(expires.tzinfo)):
        raise not_found()
    return job


def status_of(job: Job) -> Any:
    """``pending``, ``processing``, ``completed`` or ``failed``."""
    return _STATUS.get(job.state, "failed")


def moment(at: datetime) -> str:
    """A time as ``/v1/jobs`` has it: in UTC, with a Z."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def expires_at(job: Job) -> datetime | None:
    """When the result can no longer be polled; None before the job's end."""
    if job.finished_at is None or not job.state.terminal:
        return None
    return job.finished_at + timedelta(seconds=(job.request.answer or USUAL).keep_s)


def pending_answer(job: Job) -> AsyncAnswer:
    """A job in Bifrost's form, as far as it is known before its end."""
    return AsyncAnswer(id=job.id, status=status_of(job), created_at=moment(job.created_at))
