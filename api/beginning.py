"""Jobs that begin from a picture: what a submit and an edit have in common, from their bodies to the accepted job."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, NamedTuple, TypeVar

from litestar import Request
from msgspec.structs import replace

from api.auth import needs_model, sharer
from api.changing import with_inputs
from api.inputs import Prepared, fitting_size, most_pixels, open_pictures, prepare
from api.problems import ProblemError, invalid, model_not_found
from api.room import Held
from api.schemas import SubmitRequest
from api.services import Services
from api.submitting import Accepted, accept
from jobstore.errors import JobStoreError
from jobstore.inputs import delete_inputs, put_inputs
from jobstore.job import NewJob
from jobstore.keys import ApiKey
from safelight.config import ModelSettings, Settings

T = TypeVar("T")
AnyRequest = Request[Any, Any, Any]

_READ_S = 120
_SILENT_S = 10  # of them, in which nothing comes
_FORMS = 2  # the body, and what is decoded of it
_PIXEL_BYTES = 4  # of a picture and its mask, where their files are as large as what they hold
_STRENGTH = 0.8
_STRENGTH_IN_MASK = 1.0  # what is masked gives way altogether, as OpenAI's clients expect


class Source(NamedTuple):
    """The files of a picture and of its mask, as a client sent them, and what share of the steps is taken from there.

    ``strength`` None leaves it to the usual.
    """

    image: bytes
    mask: bytes | None
    strength: float | None


class Begun:
    """The files that a job begins from, by digest, in the room that they have until they are stored."""

    def __init__(self, prepared: Prepared, room: Held) -> None:
        """``room`` is as much as they might have needed: they keep what they need."""
        self.files = prepared.files
        self._room = room
        room.shrink(sum(map(len, self.files.values())))

    def drop(self) -> None:
        """They are stored: nothing holds them here."""
        self.files = {}
        self._room.shrink(0)


def room_for_body(request: AnyRequest, services: Services, size: int | None) -> AbstractAsyncContextManager[Held]:
    """Hold it from before a body of so many bytes (None: not known) is read until its pictures are got ready.

    What is no larger than other bodies has room of its own. Raises ProblemError.
    """
    server, pixels = services.settings.server, services.pixels
    small = size is not None and 0 < size <= server.body_limit_bytes
    most = server.upload_limit_bytes
    room = pixels.small_bodies if small else pixels.bodies
    return room.take(_FORMS * min(size or most, most), sharer(request))


async def in_time(request: AnyRequest, read: Awaitable[T]) -> T:
    """What is read of a body, if it comes soon enough and never stops for long: others wait for its room.

    Raises ProblemError.
    """
    receive = request.receive

    async def next_part() -> Any:
        async with asyncio.timeout(_SILENT_S):
            return await receive()

    request.receive = next_part
    try:
        async with asyncio.timeout(_READ_S):
            return await read
    except TimeoutError:
        detail = f"the body did not come within {_READ_S} seconds, or nothing came of it for {_SILENT_S}"
        raise ProblemError(408, "upload_too_slow", detail) from None
    finally:
        request.receive = receive


def able_model(name: str | None, key: ApiKey | None, settings: Settings, field: str) -> ModelSettings:
    """The model that is asked for, if it begins from pictures; ``field`` is to blame where it doesn't.

    Raises ProblemError.
    """
    wanted = name if name is not None else settings.default_model or ""
    found = settings.find_model(wanted)
    if found is None:
        may = [own for own, model in settings.models.items() if model.takes_images and (not key or key.may_use(own))]
        raise model_not_found(wanted, may, "those that begin from a picture")
    needs_model(key, found[0], settings.models)
    if not found[1].takes_images:
        raise invalid(field, f"the model {found[0]} begins from no picture: it can't edit one")
    return found[1]


async def begin(
    request: AnyRequest,
    submit: SubmitRequest,
    source: Source,
    model: ModelSettings,
    resolved: Callable[[SubmitRequest], NewJob],
    services: Services,
    stack: AsyncExitStack,
) -> tuple[NewJob, Begun]:
    """The job that ``submit`` is ``resolved`` to, begun from a picture, and the files for it; nothing is stored yet.

    They have room until they are dropped, or ``stack`` is left.
    Without a size it is the one of ``model`` nearest to the picture's shape. Raises ProblemError naming the field.
    """
    space = services.pixels.prepared.take(_PIXEL_BYTES * most_pixels(submit.size, model), sharer(request))
    room = await stack.enter_async_context(space)
    async with services.pixels.uploads.take(1, sharer(request)):
        pictures = await services.pixels.run(lambda: open_pictures(source.image, source.mask))
        if submit.size is None:
            submit = replace(submit, size=fitting_size(pictures.image, model))
        new = resolved(submit)
        prepared = await services.pixels.run(lambda: prepare(pictures, new.request.width, new.request.height))
    begun = Begun(prepared, room)
    image, mask = [*begun.files, None][:2]
    strength = source.strength or (_STRENGTH if mask is None else _STRENGTH_IN_MASK)
    if int(new.request.steps * strength) < 1:
        raise invalid("strength", f"strength must leave at least one of the {new.request.steps} steps")
    return with_inputs(new, services.settings, image=str(image), mask=mask, strength=strength), begun


async def accept_begun(
    services: Services, new: NewJob, begun: Begun, *, seed_drawn: bool, again: bool = False
) -> Accepted:
    """Store the pictures and submit; where the submit makes no job of its own, they go again. Raises as ``accept``.

    They are dropped here, but of a repeat that may be submitted ``again``.
    """
    try:
        await put_inputs(services.outputs, new.id, begun.files)
    except Exception as error:  # the drivers' errors differ by kind of outputs
        detail = "the outputs can't be reached at the moment"
        raise ProblemError(503, "unavailable", detail, headers={"Retry-After": "5"}) from error
    if not again:
        begun.drop()
    try:
        accepted = await accept(services, new, seed_drawn=seed_drawn)
    except (ProblemError, JobStoreError):  # refused: else it may have been accepted all the same, and the janitor looks
        await _discard(services, new)
        raise
    if accepted.job.id != new.id:
        await _discard(services, new)
    if not accepted.replayed:
        begun.drop()
    return accepted


def digest_of_file(file: bytes) -> str:
    """SHA-256: what a request is known by in place of the picture that it holds."""
    return hashlib.sha256(file).hexdigest()


async def _discard(services: Services, new: NewJob) -> None:
    with suppress(Exception):  # the janitor finds them
        await delete_inputs(services.outputs, new.id, new.request.inputs)
