"""``POST /v1/images/generations``, and both of Bifrost's ways to have it done later."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import PathParameter

from api.auth import READ, SUBMIT, viewer
from api.changing import with_answer
from api.dimensions import gather_dimensions
from api.idempotency import IdempotencyKey, replay_of
from api.openai.answering import encoded, images_answer, room_for
from api.openai.bifrost import ASYNC_ID, asked_id, expires_at, moment, pending_answer, polled_job, result_ttl
from api.openai.describing import Described, generation_answers
from api.openai.failures import failure_of, members_of
from api.openai.replying import AnyRequest, Reply, base_url, ended_or_pending, manner_of, poll_headers, reply
from api.openai.requests import answer_form, as_submit, parse_json, quality_of, read_request
from api.openai.schemas import AsyncAnswer, GenerationRequest
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid
from api.resolve import names_no_seed, resolve
from api.services import Services
from api.submitting import accept, submit_headers
from jobstore.job import Job, JobState, NewJob

JobId = Annotated[str, PathParameter(description="The job's id, a UUID.", schema_extra={"format": "uuid"})]


@post(
    "/images/generations",
    status_code=200,
    opt={**SUBMIT, "read_by": ASYNC_ID, "json": True},
    operation_class=Described,
    media_type="application/json",
    summary="Generate images",
    responses=answers(400, 402, 404, 409, 413, 415, 422, 429, 504) | generation_answers(),
)
async def generate_images(
    request: AnyRequest, services: ServicesDependency, idempotency_key: IdempotencyKey = None
) -> Reply:
    """OpenAI's endpoint: the pictures, or 202 where they take too long; with `stream`, previews and pictures as events.

    With `x-bf-async-id` it polls.
    """
    del idempotency_key  # described here; how often it was sent is told by the headers alone
    job_id = asked_id(request)
    if job_id is not None:
        return await ended_or_pending(services, request, await polled_job(request, job_id))
    asked = read_request(GenerationRequest, parse_json(await request.body()))
    manner = manner_of(asked, request, services, "image_generation")
    submit = partial(accept, services, seed_drawn=names_no_seed(asked))
    return await reply(services, request, _new_job(asked, request, services), submit, manner)


@get(
    "/images/generations",
    opt=READ,
    media_type="application/json",
    summary="Poll a generation",
    responses=answers(400, 404, 409, 504) | generation_answers(),
)
async def poll_images(request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """The images of the job that the header `x-bf-async-id` names, 202 before they are there."""
    job_id = asked_id(request)
    if job_id is None:
        raise invalid(ASYNC_ID, f"name the job in the header {ASYNC_ID}")
    return await ended_or_pending(services, request, await polled_job(request, job_id))


@post(
    "/async/images/generations",
    status_code=202,
    opt={**SUBMIT, "json": True},
    operation_class=Described,
    media_type="application/json",
    summary="Generate images later",
    responses=answers(400, 402, 404, 409, 413, 415, 422, 429),
)
async def generate_later(
    request: AnyRequest, services: ServicesDependency, idempotency_key: IdempotencyKey = None
) -> Response[AsyncAnswer]:
    """The same request, answered at once: poll the path that `Location` names."""
    del idempotency_key
    asked = read_request(GenerationRequest, parse_json(await request.body()))
    if asked.stream:
        raise invalid("stream", "stream must be false here: the answer is fetched later")
    new = _new_job(asked, request, services)
    accepted = await accept(services, new, seed_drawn=names_no_seed(asked))
    job = accepted.job
    answer = AsyncAnswer(id=job.id, status="pending", created_at=moment(job.created_at))
    headers = {"Location": f"/v1/async/images/generations/{job.id}", **poll_headers(job), ASYNC_ID: str(job.id)}
    return Response(answer, status_code=202, headers=headers | submit_headers(services, accepted))


@get(
    "/async/images/generations/{job_id:str}",
    opt=READ,
    media_type="application/json",
    summary="Poll a later generation",
    responses=answers(404) | generation_answers(done=AsyncAnswer, pending=AsyncAnswer),
)
async def poll_later(job_id: JobId, request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """202 while the job is pending or processing; then 200 with its result, or its error and the status that it has."""
    job = await polled_job(request, job_id)
    answer = pending_answer(job)
    if not job.state.terminal:
        headers = poll_headers(job)
        return Response(msgspec.json.encode(answer), status_code=202, headers=headers, media_type="application/json")
    async with room_for(services, job, job.pictures):
        body = await encoded(services, await _ended(services, request, job, answer))
    return Response(body, status_code=200, media_type="application/json")


def _new_job(asked: GenerationRequest, request: AnyRequest, services: Services) -> NewJob:
    dimensions = gather_dimensions(asked.dimensions, request.scope["headers"])
    replay = replay_of(asked, dimensions, request.headers, services.settings.jobs)
    submit = as_submit(asked, services.settings)
    new = resolve(
        submit, dimensions, viewer(request), services.settings, replay,
        quality=quality_of(asked), canaries=services.canaries,
    )  # fmt: skip
    return with_answer(new, answer_form(asked, services.settings, result_ttl(request)))


async def _ended(services: Services, request: AnyRequest, job: Job, answer: AsyncAnswer) -> AsyncAnswer:
    expires, finished = expires_at(job), job.finished_at
    answer = msgspec.structs.replace(
        answer,
        completed_at=moment(finished) if finished else msgspec.UNSET,
        expires_at=moment(expires) if expires else msgspec.UNSET,
    )
    try:
        if job.state is not JobState.SUCCEEDED:
            raise failure_of(job)
        result = await images_answer(services, job, base_url(request, services))
    except ProblemError as error:
        return msgspec.structs.replace(answer, status="failed", status_code=error.status_code, error=members_of(error))
    return msgspec.structs.replace(answer, status_code=200, result=result)
