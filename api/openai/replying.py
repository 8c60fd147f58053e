"""From an accepted job to its answer: the pictures, a promise of them, a stream, or why there are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response
from litestar.response import Stream
from msgspec.structs import replace

from api.auth import may_stay, sharer
from api.openai.answering import encoded, images_answer, room_for
from api.openai.bifrost import ASYNC_ID, moment, status_of, wants_async
from api.openai.failures import failure_of
from api.openai.schemas import GenerationRequest, PendingAnswer
from api.openai.streaming import HEADERS, EventStream, ImageStream
from api.preferences import preference_of
from api.problems import ProblemError
from api.seating import Seats
from api.services import Services
from api.submitting import Accepted, submit_headers
from api.waiting import CLIENT_GONE, cancel, unless_gone, wait_for_end
from jobstore.job import Job, JobState, NewJob

AnyRequest = Request[Any, Any, Any]
Reply = Response[bytes] | Stream
Submit = Callable[[NewJob], Awaitable[Accepted]]

_CANCEL = "x-safelight-cancel-on-disconnect"
_SHORTEST_S, _LONGEST_S = 1, 30  # between two polls
_BUSY = {"Retry-After": "5"}


class Manner(NamedTuple):
    """How the client wants its answer: besides what is in the request's headers. ``stream``, if any, has its seats."""

    prefix: str
    stream: Seats | None
    partial_images: int
    cancel_on_disconnect: bool


def manner_of(asked: GenerationRequest, request: AnyRequest, services: Services, prefix: str) -> Manner:
    """Raises ProblemError where no further stream is taken."""
    seats = services.tail.reserve(sharer(request)) if asked.stream else None
    if asked.stream and seats is None:
        raise ProblemError(503, "too_many_streams", "no further stream is taken at the moment", headers=_BUSY)
    cancels = asked.cancel_on_disconnect or request.headers.get(_CANCEL, "").strip().lower() in ("true", "1")
    return Manner(prefix, seats, asked.partial_images, cancels)


async def reply(services: Services, request: AnyRequest, new: NewJob, submit: Submit, manner: Manner) -> Reply:
    """Submit ``new`` and answer, held back as long as the client and the settings want. Raises ProblemError.

    A repeat of a request that is to be canceled when its client hangs up makes a new job where that has happened.
    """
    accepted = await submit(new)
    if manner.cancel_on_disconnect and accepted.replayed and _is_given_up(accepted.job):
        accepted = await submit(_anew(new, accepted.job))
    job = accepted.job
    cancels = manner.cancel_on_disconnect and not accepted.replayed  # a job that another request made is that one's
    if wants_async(request):
        return _pending(job, _told_of(job) | submit_headers(services, accepted))
    if manner.stream is not None:
        stream = ImageStream(
            services,
            job,
            manner.stream,
            prefix=manner.prefix,
            partial_images=manner.partial_images,
            may_stay=lambda: may_stay(request, job),
            cancel_on_disconnect=cancels,
        )
        return EventStream(stream.frames(), headers={**_told_of(job), **submit_headers(services, accepted), **HEADERS})
    most = services.settings.server.sync_wait_s
    preference = preference_of(request.headers)
    limit_s = preference.seconds(usual=most, most=most)
    waited = await unless_gone(request, wait_for_end(services, job, limit_s, sharer(request)), None)
    if waited is None:
        if cancels:
            await cancel(services, job)
        return _gone()
    if manner.cancel_on_disconnect and accepted.replayed and _is_given_up(waited):
        return await reply(services, request, _anew(new, waited), submit, manner)
    job = waited
    applied = preference.applied(waited_s=limit_s, pending=not job.state.terminal)
    return await ended_or_pending(services, request, job, submit_headers(services, accepted) | applied)


async def ended_or_pending(
    services: Services, request: AnyRequest, job: Job, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """The job's pictures, or 202 before its end. Raises ProblemError where it ended without."""
    headers = _told_of(job) | (headers or {})
    if not job.state.terminal:
        return _pending(job, headers)
    if job.state is not JobState.SUCCEEDED:
        raise failure_of(job)
    body = await unless_gone(request, _body(services, job, base_url(request, services)), None)
    if body is None:
        return _gone()
    return Response(body, status_code=200, headers=headers, media_type="application/json")


async def _body(services: Services, job: Job, base: str) -> bytes:
    async with room_for(services, job, job.pictures):
        return await encoded(services, await images_answer(services, job, base))


def _gone() -> Response[bytes]:
    return Response(b"", status_code=CLIENT_GONE, media_type="application/json")


def poll_headers(job: Job) -> dict[str, str]:
    """When to ask again."""
    after_s = min(max(round(job.eta_s or 0), _SHORTEST_S), _LONGEST_S)
    return {"Retry-After": str(after_s), "openai-poll-after-ms": str(1000 * after_s)}


def base_url(request: AnyRequest, services: Services) -> str:
    """Where the client finds this server: as the settings say, or else as it found it just now."""
    return (services.settings.server.public_url or str(request.base_url)).rstrip("/")


def _is_given_up(job: Job) -> bool:
    return job.state is JobState.CANCELED or (job.cancel_requested and not job.state.terminal)


def _anew(new: NewJob, given_up: Job) -> NewJob:
    """The same submit, which makes a job in the place of the one that was given up, unless another has done so."""
    return replace(new, replay=new.replay and replace(new.replay, instead_of=given_up.id))


def _told_of(job: Job) -> dict[str, str]:
    return {"x-safelight-job-id": str(job.id), ASYNC_ID: str(job.id)}


def _pending(job: Job, headers: dict[str, str]) -> Response[bytes]:
    status = "processing" if status_of(job) == "processing" else "pending"
    answer = PendingAnswer(
        id=job.id,
        status=status,  # type: ignore[arg-type]  # mypy takes the choice for any text
        created=int(job.created_at.timestamp()),
        created_at=moment(job.created_at),
    )
    headers = {"Location": f"/v1/jobs/{job.id}", **poll_headers(job), **headers}
    return Response(msgspec.json.encode(answer), status_code=202, headers=headers, media_type="application/json")
