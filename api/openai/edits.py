"""``POST /v1/images/edits``: a picture, or a part of it, rendered anew after a prompt."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from litestar import post
from msgspec.structs import replace

from api.auth import SUBMIT, viewer
from api.beginning import Begun, Source, able_model, accept_begun, begin, digest_of_file, in_time, room_for_body
from api.changing import with_answer
from api.dimensions import gather_dimensions
from api.idempotency import IdempotencyKey, replay_of
from api.openai.bifrost import result_ttl
from api.openai.describing import DescribedEdit, generation_answers
from api.openai.replying import AnyRequest, Reply, manner_of, reply
from api.openai.requests import answer_form, as_submit, quality_of, read_request
from api.openai.schemas import EditRequest
from api.openai.uploads import Upload, read_upload
from api.openapi import ServicesDependency, answers
from api.problems import invalid
from api.resolve import names_no_seed, resolve
from api.schemas import SubmitRequest
from api.services import Services
from jobstore.job import NewJob


@post(
    "/edits",
    status_code=200,
    opt=SUBMIT,
    operation_class=DescribedEdit,
    media_type="application/json",
    summary="Edit an image",
    responses=answers(400, 402, 404, 408, 409, 413, 415, 422, 429, 504) | generation_answers(),
)
async def edit_images(
    request: AnyRequest, services: ServicesDependency, idempotency_key: IdempotencyKey = None
) -> Reply:
    """OpenAI's endpoint: a form with `image` and, if you like, `mask`; or JSON with `images` as data URLs.

    Where the mask (or the image, without one) is transparent, the picture changes; without either all of it does.
    """
    del idempotency_key  # described here; how often it was sent is told by the headers alone
    async with AsyncExitStack() as stack:
        asked, new, begun = await _taken_in(request, services, stack)
        manner = manner_of(asked, request, services, "image_edit")
        again = manner.cancel_on_disconnect
        submit = partial(accept_begun, services, begun=begun, seed_drawn=names_no_seed(asked), again=again)
        return await reply(services, request, new, submit, manner)


async def _taken_in(
    request: AnyRequest, services: Services, stack: AsyncExitStack
) -> tuple[EditRequest, NewJob, Begun]:
    """What is asked for. The upload itself is gone by then: what waits for a render holds none."""
    async with room_for_body(request, services, request.content_length):
        upload = await in_time(request, read_upload(request))
        asked = replace(read_request(EditRequest, upload.members, strict=upload.strict), pictures=_digests(upload))
        return asked, *await _begun(asked, upload, request, services, stack)


async def _begun(
    asked: EditRequest, upload: Upload, request: AnyRequest, services: Services, stack: AsyncExitStack
) -> tuple[NewJob, Begun]:
    """The job, and the pictures that it begins from. Raises ProblemError naming the field."""
    settings, key = services.settings, viewer(request)
    model = able_model(asked.model, key, settings, "model")
    if not upload.images:
        raise invalid("image", "image is missing")
    if len(upload.images) > 1:
        detail = f"{upload.field} has {len(upload.images)} pictures, and the model begins from one alone"
        raise invalid(upload.field, detail)
    dimensions = gather_dimensions(asked.dimensions, request.scope["headers"])
    replay = replay_of(asked, dimensions, request.headers, settings.jobs)

    def resolved(submit: SubmitRequest) -> NewJob:
        new = resolve(submit, dimensions, key, settings, replay, quality=quality_of(asked), canaries=services.canaries)
        return with_answer(new, answer_form(asked, settings, result_ttl(request)))

    source = Source(upload.images[0], upload.mask, asked.strength)
    return await begin(request, as_submit(asked, settings), source, model, resolved, services, stack)


def _digests(upload: Upload) -> tuple[str, ...]:
    parts = [*upload.images, *([] if upload.mask is None else [b"mask", upload.mask])]
    return tuple(digest_of_file(part) for part in parts)
