"""A job that ended without pictures, as the error that its client is answered with."""

from __future__ import annotations

from api.openai.schemas import ErrorMembers
from api.problems import ProblemError, kind_of
from jobstore.job import Job, JobState

# What another try of the same request would not mend is the request's fault.
_STATUS = {"content_filtered": 400, "invalid_request": 400, "adapter_unusable": 400, "deadline_exceeded": 504}
# It is somebody else's: an alert on this server's own 500 is to stay silent.
_STATUS |= dict.fromkeys(("provider_refused", "provider_busy", "provider_unreachable"), 502)
_RENAMED = {"content_filtered": "content_policy_violation"}  # as OpenAI calls it


def failure_of(job: Job) -> ProblemError:
    """What to answer. It tells SDKs not to try again: the render's own attempts are used up."""
    headers = {"x-should-retry": "false", "x-safelight-job-id": str(job.id)}
    if job.state is JobState.CANCELED:
        return ProblemError(409, "job_canceled", f"the job {job.id} was canceled", headers=headers)
    code = job.error.code if job.error else "render_failed"
    message = job.error.message if job.error else "the render failed"
    status = _STATUS.get(code, 500)
    return ProblemError(status, _RENAMED.get(code, code), message, headers=headers)


def members_of(error: ProblemError) -> ErrorMembers:
    """The error as OpenAI's clients read it."""
    return ErrorMembers(message=error.detail, type=kind_of(error.status_code), param=error.field, code=error.code)
