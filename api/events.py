"""A job's events as a stream (Server-Sent Events, WHATWG HTML, 9.2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from api.auth import LOOK, find_job, may_stay, owns, sharer, viewer
from api.live import furthest
from api.openapi import JobId, ServicesDependency, answers, nothing_more
from api.problems import ProblemError, invalid
from api.pulse import Pulse
from api.schemas import JobView
from api.seating import Seats
from api.services import Services
from api.tail import Mail
from api.views import job_view, preview_view, progress_view
from jobstore.job import Job, JobEvent, JobState
from jobstore.live import Preview, Progress
from safelight.telemetry import get_logger

_log = get_logger(__name__)

RETRY_MS = 2000
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_SEQ_LIMIT = 2**63
_NOTHING = (-1, -1.0)
_BUSY = {"Retry-After": "5"}


@get(
    "/jobs/{job_id:str}/events",
    opt=LOOK,
    summary="Watch a job",
    media_type="text/event-stream",
    responses=answers(400, 404) | nothing_more(),
)
async def watch_job(
    job_id: JobId,
    request: Request[Any, Any, Any],
    services: ServicesDependency,
    last_event_id: Annotated[
        str | None, QueryParameter(name="last_event_id", description="Only events after this one.")
    ] = None,
    last_event_header: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", description="The same, as browsers send it.")
    ] = None,
) -> Stream | Response[None]:
    """`state` and `done` are durable and have an `id:`; `progress` and `preview` are live only.

    The stream ends with the job.
    """
    after = _sequence(last_event_header or last_event_id)
    job = await find_job(request, job_id)
    if after and job.state.terminal and not await services.store.events(job.id, after):
        return Response(None, status_code=204)  # WHATWG HTML, 9.2.1: tells a client not to connect again
    seats = services.tail.reserve(sharer(request))
    if seats is None:
        raise too_many_streams()
    own = owns(viewer(request), job.key_id)
    stream = JobStream(services, job, after, lambda: may_stay(request, job), seats, with_path=own)
    return Stream(stream.frames(), media_type="text/event-stream", headers=STREAM_HEADERS)


def too_many_streams() -> ProblemError:
    """The 503 to who comes while as many streams are open as the settings allow."""
    return ProblemError(503, "too_many_streams", "no further stream is taken at the moment", headers=_BUSY)


class JobStream:
    """One client's view of one job, from event ``after`` on."""

    def __init__(
        self,
        services: Services,
        job: Job,
        after: int,
        may_stay: Callable[[], Awaitable[bool]],
        seats: Seats,
        frame: Callable[[str, object, int | None], bytes] | None = None,
        *,
        with_path: bool,
    ) -> None:
        """Nothing is read before the first frame is asked for. The stream ends when ``may_stay`` says so.

        It takes the ``seats``, which it may share with others.

        ``frame`` puts an event's name, data and sequence number into bytes; as :func:`frame_of` does, else.
        ``with_path`` tells the whole address of the job's webhook.
        """
        self._services = services
        self._job = job
        self._after = after
        self._may_stay = may_stay
        self._seats = seats
        self._frame = frame or frame_of
        self._with_path = with_path
        self._told = _NOTHING
        self._ended = False

    async def frames(self) -> AsyncGenerator[bytes]:
        """Frames until the job or the process ends, or the client's key is revoked.

        No database connection is held between them.
        """
        inbox = self._services.tail.subscribe(self._watched(), self._seats)
        try:
            yield f"retry: {RETRY_MS}\n".encode()  # without a blank line: part of the first event
            await self._services.tail.reading()
            for frame in [*await self._replay(), *self._latest()]:
                yield frame
            pulse = Pulse(self._services.heartbeat_s)
            while not self._ended and not self._services.tail.closed:
                await inbox.wait(pulse.left_s)
                if not await self._may_stay():
                    break
                async for frame in self._news(inbox.drain(), silent=pulse.due):
                    yield frame
                    pulse.beat()
                inbox.job_ids = self._watched()
        except Exception as error:  # the client comes back and goes on after the last id
            _log.warning("stream broke off", action="events.broke_off", error=type(error).__name__)
        finally:
            self._services.tail.unsubscribe(inbox)  # no await here: a canceled stream would never get past it

    async def _news(self, mail: Mail, *, silent: bool) -> AsyncIterator[bytes]:
        """What came in; after a silence what was missed, and a heartbeat in any case."""
        if mail.overflowed:
            yield self._frame("resync", {}, None)
        starting = bool(mail.progress or mail.previews) and self._job.state is not JobState.RUNNING
        if starting or silent:
            for frame in await self._replay():
                yield frame
        for frame in (*self._steps(mail.progress), *self._pictures(mail.previews)):
            yield frame
        if mail.changed or mail.overflowed:
            for frame in await self._replay():
                yield frame
        if silent:
            yield b": heartbeat\n"

    def _watched(self) -> frozenset[Any]:
        return frozenset(known for known in (self._job.id, self._job.leader_id) if known is not None)

    async def _replay(self) -> list[bytes]:
        """The durable events that the client has not seen."""
        if self._ended:
            return []
        store, job_id, after = self._services.store, self._job.id, self._after
        # First the events: the job is then at least as far as they tell.
        events = await self._services.shared.read((job_id, after), lambda: store.events(job_id, after))
        self._job = await self._services.shared.read(job_id, lambda: store.get(job_id))
        if self._job.state.terminal and not events:  # it may have ended between the two looks
            events = await store.events(job_id, after)
        self._ended = self._job.state.terminal and (not events or events[-1].kind == "done")
        return [*self._durable(events)]

    def _durable(self, events: tuple[JobEvent, ...]) -> Iterator[bytes]:
        if not events and self._ended:
            yield self._frame("done", self._view(), None)
        for event in events:
            self._after = event.seq
            if event.data.get("state") != JobState.RUNNING:
                self._told = self._told[0], -1.0
            if event is events[-1] and self._ended:
                yield self._frame("done", self._view(), event.seq)
            else:  # the end of an attempt that was redriven is a change of state like others
                yield self._frame("state", {**event.data, "at": event.at}, event.seq)

    def _view(self) -> JobView:
        return job_view(self._job, self._services, with_path=self._with_path)

    def _latest(self) -> Iterator[bytes]:
        known = None if self._ended else self._services.live.of(self._job)
        return self._steps((known,) if known else ())

    def _steps(self, progress: tuple[Progress, ...]) -> Iterator[bytes]:
        for step in progress:
            if self._job.state is JobState.RUNNING and furthest(step) > self._told:
                self._told = furthest(step)
                yield self._frame("progress", progress_view(step), None)

    def _pictures(self, previews: tuple[Preview, ...]) -> Iterator[bytes]:
        for preview in previews:
            if self._job.state is JobState.RUNNING and preview.attempt >= self._told[0]:
                yield self._frame("preview", preview_view(preview), None)


def _sequence(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and int(text[:20]) < _SEQ_LIMIT):
        raise invalid("last_event_id", "last_event_id must be the id of an event")
    return int(text[:20])


def frame_of(event: str, data: object, seq: int | None) -> bytes:
    """An event as bytes; what has no ``seq`` is not resumed after."""
    identity = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %s\n%sdata: %s\n\n" % (event.encode(), identity, msgspec.json.encode(data))
