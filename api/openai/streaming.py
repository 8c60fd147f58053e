"""A job's previews and pictures as a stream of OpenAI's events (Server-Sent Events)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from litestar.response import Stream

from api.openai.answering import USUAL, base64_file, room_for
from api.openai.failures import failure_of, members_of
from api.openai.schemas import ErrorMembers, ImageEvent, Usage
from api.problems import ProblemError
from api.pulse import Pulse
from api.seating import Seats
from api.services import Services
from api.waiting import cancel, look, watched
from jobstore.job import Job, JobState
from jobstore.live import Preview
from jobstore.pictures import UnreadablePictureError, transcode
from safelight.telemetry import get_logger

_log = get_logger(__name__)

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_END = b"data: [DONE]\n\n"
_canceling: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


class EventStream(Stream):
    """A stream from a route that answers with JSON as well, whose media type Litestar would take for the stream's."""

    def to_asgi_response(self, app: Any, request: Any, **options: Any) -> Any:
        """As any stream, under its own media type."""
        return super().to_asgi_response(app, request, **{**options, "media_type": "text/event-stream"})


class ImageStream:
    """One client's stream of one job: up to ``partial_images`` previews, then every picture, then the end."""

    def __init__(
        self,
        services: Services,
        job: Job,
        seats: Seats,
        *,
        prefix: str,
        partial_images: int,
        may_stay: Callable[[], Awaitable[bool]],
        cancel_on_disconnect: bool,
    ) -> None:
        """``prefix`` is ``image_generation`` or ``image_edit``."""
        self._services = services
        self._job = job
        self._seats = seats
        self._form = job.request.answer or USUAL
        self._format = self._form.format or job.request.format
        self._prefix = prefix
        self._left = partial_images
        self._sent = 0
        self._may_stay = may_stay
        self._cancels = cancel_on_disconnect
        self._ended = False

    async def frames(self) -> AsyncIterator[bytes]:
        """Frames until the job has ended. No connection to the store is held between them."""
        inbox = self._services.tail.subscribe(watched(self._job), self._seats)
        try:
            yield b": accepted\n\n"  # headers and a first byte at once: nothing between here and the client waits
            await self._services.tail.reading()
            self._job = await look(self._services, self._job)
            pulse = Pulse(self._services.heartbeat_s)
            while not self._job.state.terminal and not self._services.tail.closed:
                await inbox.wait(pulse.left_s)
                if not await self._may_stay():
                    yield _frame("error", _Failure(error=members_of(_shut_out())))
                    yield _END
                    return
                mail = inbox.drain()
                for preview in mail.previews:
                    async for frame in self._partial(preview):
                        yield frame
                        pulse.beat()
                if silent := pulse.due:
                    yield b": heartbeat\n\n"
                    pulse.beat()
                if silent or mail.changed or mail.overflowed:
                    self._job = await look(self._services, self._job)
                    inbox.job_ids = watched(self._job)
            self._ended = True
            for preview in inbox.drain().previews:  # of a render that was faster than the first look
                async for frame in self._partial(preview):
                    yield frame
            async for frame in self._end():
                yield frame
        finally:
            self._services.tail.unsubscribe(inbox)  # no await here: a canceled stream would never get past it
            if self._cancels and not self._ended:
                task = asyncio.create_task(cancel(self._services, self._job))
                _canceling.add(task)
                task.add_done_callback(_canceling.discard)

    async def _partial(self, preview: Preview) -> AsyncIterator[bytes]:
        if not self._left:
            return
        try:
            image = await self._services.pixels.run(lambda: transcode(preview.image, self._format))
        except UnreadablePictureError:
            return
        event = self._event("partial_image", b64encode(image).decode(), preview.index)
        yield _frame(event.type, msgspec.structs.replace(event, partial_image_index=self._sent))
        self._left -= 1
        self._sent += 1

    async def _end(self) -> AsyncIterator[bytes]:
        failure = self._failure()
        try:
            for picture in self._job.pictures if failure is None else ():
                async with room_for(self._services, self._job, [picture]):
                    image = await base64_file(self._services, picture, self._form)
                event = self._event("completed", image, picture.index)
                yield _frame(event.type, msgspec.structs.replace(event, usage=Usage()))
        except ProblemError as error:  # a picture can't be read
            failure = error
        if failure is not None:
            yield _frame("error", _Failure(error=members_of(failure)))
        yield _END

    def _failure(self) -> ProblemError | None:
        if not self._job.state.terminal:
            detail = f"the server is stopping; the job goes on: GET /v1/jobs/{self._job.id}"
            return ProblemError(503, "shutting_down", detail)
        return None if self._job.state is JobState.SUCCEEDED else failure_of(self._job)

    def _event(self, kind: str, image: str, index: int) -> ImageEvent:
        request = self._job.request
        return ImageEvent(
            type=f"{self._prefix}.{kind}",
            b64_json=image,
            created_at=int((self._job.finished_at or self._job.created_at).timestamp()),
            size=f"{request.width}x{request.height}",
            quality=self._form.quality,
            output_format=self._format,
            image_index=index,
        )


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    type: str = "error"
    error: ErrorMembers


def _shut_out() -> ProblemError:
    return ProblemError(401, "invalid_api_key", "the key that this stream was opened with no longer counts for it")


def _frame(event: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))
