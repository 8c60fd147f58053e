"""Remote models through a whole worker: pictures, money, retries, the next route, cancels and stops."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from PIL import Image
from prometheus_client import REGISTRY

from actors.bell import BrokerBell
from actors.broker import make_broker
from actors.renderer import NoEngine
from actors.retries import RETRIED, Backoff
from actors.worker import WorkerProcess
from jobstore.fingerprint import batch_key, fingerprints
from jobstore.ids import uuid7
from jobstore.job import Job, JobRequest, JobState, NewJob, Route
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from safelight.config import ModelSettings, Settings, WorkerSettings
from tests.actors.harness import GatedProgress
from tests.actors.providers.service import Reply, Service, picture, pictures, refused, remote
from tests.engine.conftest import TIMEOUT_S

SOON = {"Location": "/v1/later", "openai-poll-after-ms": "20"}


class Desk:
    """A store with a worker of remote lanes."""

    def __init__(self, store: PostgresStore, database: str, outputs: Outputs, models: dict[str, ModelSettings]) -> None:
        self.store, self.outputs, self.models = store, outputs, models
        self._database = database
        self._bell: BrokerBell | None = None
        self.worker: WorkerProcess | None = None

    async def start(self) -> None:
        """Start a worker of all lanes."""
        lanes = tuple({model.lane for model in self.models.values()})
        times: dict[str, Any] = {"beat_s": 0.1, "lease_s": 20.0, "sweep_s": 0.2, "look_s": 0.2}
        settings = Settings(models=self.models, worker=WorkerSettings(lanes=lanes, device="none", **times))
        broker = make_broker("memory")
        self._bell = BrokerBell(broker)
        self._bell.start()
        make = lambda: PostgresStore(self._database)  # noqa: E731
        self.worker = WorkerProcess(settings, make, self.outputs, broker, self._bell, GatedProgress())
        assert isinstance(self.worker.engine, NoEngine)
        await asyncio.to_thread(self.worker.start)

    async def stop(self) -> None:
        """Stop it, at once."""
        if self.worker is not None and self._bell is not None:
            await asyncio.to_thread(self.worker.stop, 0.0)
            await asyncio.to_thread(self._bell.stop)
            self.worker = None

    def new(self, name: str = "far", *fallbacks: str, **changes: Any) -> NewJob:
        """A job for one of the models, with routes to others."""
        fields: dict[str, Any] = {"prompt": "a cat", "width": 64, "height": 64, "steps": 4, "seed": 1} | changes
        request = JobRequest(model=name, **fields)
        return NewJob(
            id=uuid7(), request=request, currency="USD", max_attempts=2, **self._resolved(request),
            fallbacks=tuple(self._route(msgspec.structs.replace(request, model=other)) for other in fallbacks),
        )  # fmt: skip

    def _route(self, request: JobRequest) -> Route:
        return Route(request=request, **self._resolved(request))

    def _resolved(self, request: JobRequest) -> dict[str, Any]:
        model = self.models[request.model]
        exact, seedless = fingerprints(request, model, None)
        return {
            "lane": model.lane,
            "batch_key": batch_key(request, model),
            "fingerprint": exact,
            "seedless_fingerprint": seedless,
            "price": Decimal(model.price) * request.n,
        }

    async def wait(self, job: Job, *states: JobState) -> Job:
        """The job, once it is in one of the states (by default: at its end)."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                now = await self.store.get(job.id)
                if now.state in states or (not states and now.state.terminal):
                    return now
                await asyncio.sleep(0.02)


def counted(name: str, **labels: str) -> float:
    """What a metric of this process stands at."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def desk(store: PostgresStore, database: str, outputs: Outputs, service: Service) -> AsyncIterator[Desk]:
    """Two remote models of one service, in lanes of their own; no device."""
    models = {"far": remote(service), "further": remote(service, lane="further", price="0.07", model="b", extra=True)}
    desk = Desk(store, database, outputs, models)
    yield desk
    await desk.stop()


async def test_a_remote_job_is_rendered_and_charged(desk: Desk, service: Service) -> None:
    """Its pictures are kept like any other; it took no device time, and the ledger names the provider."""
    await desk.start()
    job = await desk.store.submit(desk.new(n=2))
    done = await desk.wait(job)
    assert (done.state, done.charged, done.gpu_seconds) == (JobState.SUCCEEDED, Decimal("0.08"), Decimal(0))
    assert [(shot.width, shot.height, shot.seed) for shot in done.pictures] == [(64, 64, 1), (64, 64, 2)]
    data = await desk.outputs.get(done.pictures[0].key)
    assert Image.open(io.BytesIO(data)).getpixel((1, 1)) == (255, 0, 0)
    [row] = await desk.store.usage(job.id)
    assert (row.device, row.gpu_seconds, row.charged) == ("provider:far", Decimal(0), Decimal("0.08"))
    assert any("no seed" in warning for warning in done.warnings)
    again = await desk.store.find_cached(job.fingerprint)
    assert again is not None
    assert len(service.seen) == 1


async def test_a_picture_of_another_size_is_taken_with_a_warning(desk: Desk, service: Service) -> None:
    """It is rendered, and has its price; what is transparent becomes white."""
    service.replies = [Reply(body=pictures(picture(80, 40, "RGBA", (255, 0, 0, 0), "WEBP")))]
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new("further")))
    assert done.warnings == ("the provider gave 80x40 pixels instead of 64x64",)
    assert (done.pictures[0].width, done.pictures[0].height) == (80, 40)
    data = await desk.outputs.get(done.pictures[0].key)
    assert Image.open(io.BytesIO(data)).getpixel((1, 1)) == (255, 255, 255)


async def test_a_picture_of_far_more_pixels_is_not_unpacked(desk: Desk, service: Service) -> None:
    """A file of 65 KB may hold 67 million pixels; what the smallest size of a provider may be is taken."""
    service.replies = [Reply(body=pictures(picture(2048, 1025, "L", 0)))] * 2
    await desk.start()
    failed = await desk.wait(await desk.store.submit(desk.new()))
    assert failed.error is not None
    assert (failed.state, failed.error.code) == (JobState.DEAD, "bad_output")
    assert "2048x1025" in failed.error.message
    service.replies = [Reply(body=pictures(picture(2048, 1024, "L", 0)))]
    assert (await desk.wait(await desk.store.submit(desk.new(prompt="a dog")))).state is JobState.SUCCEEDED


async def test_what_is_no_picture_is_tried_again(desk: Desk, service: Service) -> None:
    """A bomb, a text, a cut-off file: nothing of it is stored."""
    whole = picture(64, 64)
    service.replies = [Reply(body=pictures(whole[: len(whole) // 2]))]
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new()))
    assert (done.state, done.attempts) == (JobState.SUCCEEDED, 2)
    first, second = service.keys
    assert first != second


@pytest.mark.parametrize(
    "replies",
    [
        [Reply(504, b"gateway timeout")],
        [Reply(202, {}, SOON), Reply(503, b"")],
        [Reply(202, {}, SOON), Reply(500, refused("oops"))],
    ],
)
async def test_a_render_that_may_be_under_way_is_asked_for_under_the_same_key(
    desk: Desk, service: Service, monkeypatch: pytest.MonkeyPatch, replies: list[Reply]
) -> None:
    """A provider that keeps to the key renders it once, and is paid once."""
    monkeypatch.setattr("actors.providers.openai_images._SILENCE_S", 0.01)
    monkeypatch.setitem(RETRIED, "provider_unreachable", Backoff(0.01))
    service.replies = list(replies)
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new()))
    assert (done.state, done.attempts) == (JobState.SUCCEEDED, 2)
    first, second = service.keys
    assert first == second


async def test_a_promise_that_cannot_be_followed_is_not_asked_for_again(desk: Desk, service: Service) -> None:
    """The provider renders, but nobody can fetch it: the next route does."""
    service.replies = [Reply(202, {}, {"Location": "https://far.example/v1/jobs/1"})]
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new("far", "further")))
    assert (done.state, done.request.model) == (JobState.SUCCEEDED, "further")
    assert [seen.body["model"] for seen in service.seen] == ["flux", "b"]


async def test_a_busy_provider_is_left_alone_for_as_long_as_it_says(desk: Desk, service: Service) -> None:
    """The job is tried again later, and not before."""
    service.replies = [Reply(429, refused(None), {"Retry-After": "200"})]
    await desk.start()
    waits = await desk.wait(await desk.store.submit(desk.new()), JobState.SCHEDULED)
    assert waits.error is not None
    assert waits.error.code == "provider_busy"
    assert waits.start_at is not None
    assert (waits.start_at - waits.created_at).total_seconds() > 190


async def test_a_provider_that_refuses_hands_the_job_on(desk: Desk, service: Service) -> None:
    """At once, to the next route, at its price."""
    service.replies = [Reply(401, refused("invalid_api_key"))]
    before = counted("safelight_fallbacks_total", cause="provider_refused")
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new("far", "further")))
    assert (done.state, done.request.model, done.charged) == (JobState.SUCCEEDED, "further", Decimal("0.07"))
    assert done.warnings == ("sent on from far to further: provider_refused",)
    assert [row.device for row in await desk.store.usage(done.id)] == ["provider:far", "provider:further"]
    assert [seen.body["model"] for seen in service.seen] == ["flux", "b"]
    assert counted("safelight_fallbacks_total", cause="provider_refused") == before + 1
    assert counted("safelight_provider_seconds_count", model="far", outcome="provider_refused") > 0
    assert counted("safelight_provider_seconds_count", model="further", outcome="ok") > 0


async def test_a_flagged_prompt_goes_nowhere(desk: Desk, service: Service) -> None:
    """Another provider is not asked for what the first one refuses to draw."""
    service.replies = [Reply(400, refused("content_policy_violation", "not that"))]
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new("far", "further")))
    assert done.error is not None
    assert (done.state, done.error.code, done.charged) == (JobState.FAILED, "content_filtered", Decimal(0))
    assert len(service.seen) == 1


async def test_cancel_of_a_remote_job(desk: Desk, service: Service) -> None:
    """Between two polls; nothing is charged."""
    service.replies = [Reply(202, {}, SOON)] * 10_000
    await desk.start()
    job = await desk.store.submit(desk.new())
    await asyncio.to_thread(service.wait, 3)
    await desk.store.cancel(job.id)
    done = await desk.wait(job)
    assert (done.state, done.charged) == (JobState.CANCELED, Decimal(0))


async def test_a_deadline_of_a_remote_job(desk: Desk, service: Service) -> None:
    """It fails promptly, whatever the provider does."""
    service.replies = [Reply(202, {}, SOON)] * 10_000
    await desk.start()
    done = await desk.wait(await desk.store.submit(desk.new(deadline_s=1.0)))
    assert done.error is not None
    assert (done.state, done.error.code) == (JobState.FAILED, "deadline_exceeded")


async def test_the_next_worker_finds_what_the_last_one_asked_for(desk: Desk, service: Service) -> None:
    """A stop in the middle of a render costs none: the provider is asked under the same key."""
    service.replies = [Reply(202, {}, SOON)] * 10_000
    await desk.start()
    job = await desk.store.submit(desk.new())
    await asyncio.to_thread(service.wait, 1)
    await desk.stop()
    assert (await desk.store.get(job.id)).state is JobState.QUEUED
    service.replies = []
    await desk.start()
    done = await desk.wait(job)
    assert (done.state, done.attempts) == (JobState.SUCCEEDED, 1)
    first, second = service.keys
    assert first == second
