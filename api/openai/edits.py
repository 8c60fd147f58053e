"""``POST /v1/images/edits``: a picture, or a part of it, rendered anew after a prompt."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from functools import partial

from litestar import post
from msgspec.structs import replace

from api.auth import SUBMIT, needs_model, viewer
from api.changing import with_answer, with_inputs
from api.dimensions import gather_dimensions
from api.idempotency import IdempotencyKey, replay_of
from api.openai.bifrost import result_ttl
from api.openai.describing import DescribedEdit, generation_answers
from api.openai.inputs import Prepared, fitting_size, open_pictures, prepare
from api.openai.replying import AnyRequest, Reply, manner_of, reply
from api.openai.requests import answer_form, as_submit, quality_of, read_request
from api.openai.schemas import EditRequest
from api.openai.uploads import Upload, read_upload
from api.openapi import ServicesDependency, answers
from api.problems import ProblemError, invalid, model_not_found
from api.resolve import names_no_seed, resolve
from api.services import Services
from api.submitting import Accepted, accept
from jobstore.errors import JobStoreError
from jobstore.inputs import delete_inputs, put_inputs
from jobstore.job import NewJob
from safelight.config import ModelSettings, Settings

_READ_S = 120
_FORMS = 2  # the body, and what is decoded of it
_STRENGTH = 0.8
_STRENGTH_IN_MASK = 1.0  # what is masked gives way altogether, as OpenAI's clients expect


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
    asked, new, prepared = await _taken_in(request, services)
    manner = manner_of(asked, request, services, "image_edit")
    submit = partial(_accepted, services, prepared=prepared, seed_drawn=names_no_seed(asked))
    return await reply(services, request, new, submit, manner)


async def _taken_in(request: AnyRequest, services: Services) -> tuple[EditRequest, NewJob, Prepared]:
    """What is asked for. The upload itself is gone by then: what waits for a render holds none."""
    most = services.settings.server.upload_limit_bytes
    async with services.pixels.bodies.take(_FORMS * min(request.content_length or most, most)):
        upload = await _read(request)
        asked = replace(read_request(EditRequest, upload.members, strict=upload.strict), pictures=_digests(upload))
        async with services.pixels.uploads:
            return asked, *await _prepared(asked, upload, request, services)


async def _read(request: AnyRequest) -> Upload:
    try:
        async with asyncio.timeout(_READ_S):
            return await read_upload(request)
    except TimeoutError:
        raise ProblemError(408, "upload_too_slow", f"the body did not come within {_READ_S} seconds") from None


async def _prepared(
    asked: EditRequest, upload: Upload, request: AnyRequest, services: Services
) -> tuple[NewJob, Prepared]:
    """The job, and the pictures that it begins from. Nothing is stored yet. Raises ProblemError naming the field."""
    settings = services.settings
    model = _able_model(asked, request, settings)
    if len(upload.images) != 1:
        raise invalid("image", "the model begins from one picture alone" if upload.images else "image is missing")
    pictures = await services.pixels.run(lambda: open_pictures(upload.images[0], upload.mask))
    submit = as_submit(asked, settings)
    if submit.size is None:
        submit = replace(submit, size=fitting_size(pictures.image, model))
    dimensions = gather_dimensions(asked.dimensions, request.scope["headers"])
    replay = replay_of(asked, dimensions, request.headers, settings.jobs)
    new = resolve(submit, dimensions, viewer(request), settings, replay, quality=quality_of(asked))
    new = with_answer(new, answer_form(asked, settings, result_ttl(request)))
    prepared = await services.pixels.run(lambda: prepare(pictures, new.request.width, new.request.height))
    image, mask = [*prepared.files, None][:2]
    strength = asked.strength or (_STRENGTH if mask is None else _STRENGTH_IN_MASK)
    if int(new.request.steps * strength) < 1:
        raise invalid("strength", f"strength must leave at least one of the {new.request.steps} steps")
    return with_inputs(new, settings, image=str(image), mask=mask, strength=strength), prepared


def _able_model(asked: EditRequest, request: AnyRequest, settings: Settings) -> ModelSettings:
    """The model that is asked for, if it begins from pictures. Raises ProblemError."""
    name = asked.model if asked.model is not None else settings.default_model or ""
    found = settings.find_model(name)
    if found is None:
        key = viewer(request)
        may = [own for own, model in settings.models.items() if model.takes_images and (not key or key.may_use(own))]
        raise model_not_found(name, may, "those that edit")
    needs_model(viewer(request), found[0], settings.models)
    if not found[1].takes_images:
        raise invalid("model", f"the model {found[0]} begins from no picture: it can't edit one")
    return found[1]


async def _accepted(services: Services, new: NewJob, prepared: Prepared, *, seed_drawn: bool) -> Accepted:
    """Store the pictures and submit. Where the submit makes no job of its own, they go again."""
    try:
        await put_inputs(services.outputs, new.id, prepared.files)
    except Exception as error:  # the drivers' errors differ by kind of outputs
        detail = "the outputs can't be reached at the moment"
        raise ProblemError(503, "unavailable", detail, headers={"Retry-After": "5"}) from error
    try:
        accepted = await accept(services, new, seed_drawn=seed_drawn)
    except (ProblemError, JobStoreError):  # refused: else it may have been accepted all the same, and the janitor looks
        await _discard(services, new)
        raise
    if accepted.job.id != new.id:
        await _discard(services, new)
    return accepted


async def _discard(services: Services, new: NewJob) -> None:
    with suppress(Exception):  # the janitor finds them
        await delete_inputs(services.outputs, new.id, new.request.inputs)


def _digests(upload: Upload) -> tuple[str, ...]:
    parts = [*upload.images, *([] if upload.mask is None else [b"mask", upload.mask])]
    return tuple(hashlib.sha256(part).hexdigest() for part in parts)
