"""The body of a submit: JSON that may hold pictures. One that is larger than other bodies is read in its turn."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
from litestar import Request
from litestar.openapi.spec import OpenAPIMediaType, Operation, Reference, RequestBody
from msgspec.structs import replace

from api.auth import viewer
from api.beginning import Begun, Source, able_model, accept_begun, begin, digest_of_file, in_time, room_for_body
from api.dimensions import gather_dimensions
from api.idempotency import replay_of
from api.inputs import picture_file
from api.problems import ProblemError, from_decoding, invalid
from api.resolve import names_no_seed, resolve
from api.schemas import JobSubmit
from api.services import Services
from api.submitting import Accepted, accept
from jobstore.job import NewJob

AnyRequest = Request[Any, Any, Any]

_DECODER = msgspec.json.Decoder(JobSubmit)


class _TakenIn(NamedTuple):
    """A job to be, and the pictures that it begins from."""

    new: NewJob
    seed_drawn: bool
    begun: Begun | None = None


@dataclass
class DescribedSubmit(Operation):
    """An operation whose body is a submit."""

    def __post_init__(self) -> None:
        """Name the body's schema, which ``api.openapi`` puts into the document."""
        content = OpenAPIMediaType(schema=Reference(ref="#/components/schemas/JobSubmit"))
        self.request_body = RequestBody(content={"application/json": content}, required=True)


async def submit_body(request: AnyRequest, services: Services) -> Accepted:
    """Submit what the body asks for. Raises ProblemError, and whatever ``accept`` does.

    The body is gone by then: what waits for a render holds no picture.
    """
    async with AsyncExitStack() as stack:
        new, seed_drawn, begun = await _taken_in(request, services, stack)
        if begun is None:
            return await accept(services, new, seed_drawn=seed_drawn)
        return await accept_begun(services, new, begun, seed_drawn=seed_drawn)


async def _taken_in(request: AnyRequest, services: Services, stack: AsyncExitStack) -> _TakenIn:
    """Only what says beforehand that it is large is read beyond the usual limit: it has its room from then on."""
    usual, length = services.settings.server.body_limit_bytes, request.content_length
    if length is None or length <= usual:
        body = await (_whole(request, usual) if length is None else request.body())
        submit = _decoded(body)
        if submit.image is None:
            return await _understood(submit, request, services, stack)
        async with room_for_body(request, services, len(body)):
            return await _understood(submit, request, services, stack)
    async with room_for_body(request, services, length):
        submit = _decoded(await in_time(request, _whole(request, services.settings.server.upload_limit_bytes)))
        if submit.image is None and submit.mask is None:
            raise _too_large()
        return await _understood(submit, request, services, stack)


async def _whole(request: AnyRequest, most: int) -> bytes:
    """The body. Unlike the request's own method it keeps no copy for later."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _decoded(body: bytes) -> JobSubmit:
    """Raises ProblemError naming the field."""
    if not body:
        raise ProblemError(400, "invalid_json", "the body is missing: it must be a JSON object")
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise from_decoding(error, JobSubmit.__struct_fields__) from error


async def _understood(submit: JobSubmit, request: AnyRequest, services: Services, stack: AsyncExitStack) -> _TakenIn:
    settings, key = services.settings, viewer(request)
    dimensions = gather_dimensions(submit.dimensions, request.scope["headers"])
    seed_drawn = names_no_seed(submit)
    if submit.image is None:
        for name in ("mask", "strength"):
            if getattr(submit, name) is not None:
                raise invalid(name, f"{name} goes with an image, and there is none")
        replay = replay_of(submit, dimensions, request.headers, settings.jobs)
        return _TakenIn(resolve(submit, dimensions, key, settings, replay, canaries=services.canaries), seed_drawn)
    model = able_model(submit.model, key, settings, "image")
    mask = None if submit.mask is None else picture_file("mask", submit.mask)
    source = Source(picture_file("image", submit.image), mask, submit.strength)
    submit = replace(submit, image=digest_of_file(source.image), mask=None if mask is None else digest_of_file(mask))
    replay = replay_of(submit, dimensions, request.headers, settings.jobs)
    resolved = partial(
        resolve, dimensions=dimensions, key=key, settings=settings, replay=replay, canaries=services.canaries
    )
    new, begun = await begin(request, submit, source, model, resolved, services, stack)
    return _TakenIn(new, seed_drawn, begun)


def _too_large() -> ProblemError:
    return ProblemError(413, "body_too_large", "the body is larger than this server takes")
