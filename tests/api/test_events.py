"""Event streams over real HTTP."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
from httpx_sse import EventSource, ServerSentEvent

from api.events import JobStream
from api.tail import Subscription
from jobstore.job import JobError, JobEvent
from jobstore.live import Preview
from jobstore.outputs import Outputs
from tests.api.site import LIMIT_S, SETTINGS, Driver, Site, image_of, with_server
from tests.api.test_jobs import submit


@contextmanager
def watching(http: httpx.Client, job: dict[str, Any], **headers: str) -> Iterator[Iterator[ServerSentEvent]]:
    """The events of a job, as they come."""
    with http.stream("GET", f"/v1/jobs/{job['id']}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache"
        assert "content-encoding" not in response.headers
        yield EventSource(response).iter_sse()


def until(probe: Callable[[], bool]) -> None:
    """Wait until ``probe`` holds."""
    tick = threading.Event()
    for _ in range(int(LIMIT_S / 0.02)):
        if probe():
            return
        tick.wait(0.02)
    raise AssertionError("waited in vain")


def test_a_job_is_watched_from_queue_to_picture(site: Site, http: httpx.Client, worker: Driver) -> None:
    """States with ids, steps without, monotone; ``done`` is the job; then the stream ends."""
    job = submit(http, seed=1)
    with watching(http, job) as events:
        first = next(events)
        assert (first.event, first.json()["state"]) == ("state", "queued")
        lease = worker.claim()
        running = next(events)
        assert (running.event, running.json()["state"]) == ("state", "running")
        for step in (1, 2, 2, 1, 8):
            worker.step(lease.job.id, step)
        steps = [next(events) for _ in range(3)]
        assert [(event.event, event.json()["step"]) for event in steps] == [("progress", n) for n in (1, 2, 8)]
        assert all(event.id in ("", running.id) and event.json()["fraction"] < 1 for event in steps)
        worker.finish(lease)
        (done,) = list(events)
    assert done.event == "done"
    assert int(first.id) < int(running.id) < int(done.id)
    assert done.json() == http.get(f"/v1/jobs/{job['id']}").json()
    until(lambda: site.services.tail.listeners == 0)


def test_previews_are_shown_while_the_job_runs(http: httpx.Client, worker: Driver) -> None:
    """Each image's latest, as a data URL, without an id; those of a lost attempt and of a finished job are not."""
    job = submit(http, seed=1, n=2)
    with watching(http, job) as events:
        assert next(events).event == "state"
        lease = worker.claim()
        running = next(events)
        worker.preview(lease.job.id, 2)
        first = next(events)
        assert (first.event, first.id in ("", running.id)) == ("preview", True)
        shown = first.json()
        assert (shown["index"], shown["step"], shown["steps"]) == (0, 2, 8)
        kind, _, data = shown["image"].partition(",")
        assert kind == "data:image/jpeg;base64"
        assert image_of(b64decode(data)).size == (32, 32)
        worker.preview(lease.job.id, 3, index=1)
        assert next(events).json()["index"] == 1
        worker.step(lease.job.id, 4, attempt=9)
        assert next(events).event == "progress"
        worker.preview(lease.job.id, 7, attempt=8)
        worker.finish(lease)
        (done,) = list(events)
    assert done.event == "done"


def test_a_slow_reader_gets_each_image_s_latest_preview(site: Site) -> None:
    """The inbox holds one of each, however many come."""
    job_id = uuid4()
    inbox = Subscription(frozenset({job_id}))
    for step in range(1000):
        for index in (0, 1):
            inbox.offer(Preview(job_id=job_id, index=index, step=step, steps=1000, image=b"x", media_type="image/jpeg"))
    mail = inbox.drain()
    assert [(preview.index, preview.step) for preview in mail.previews] == [(0, 999), (1, 999)]
    assert not mail.overflowed
    assert inbox.drain().previews == ()


def test_replay_begins_after_the_last_id_exactly_once(http: httpx.Client, worker: Driver) -> None:
    """Header or query; from the start without one; 204 tells a browser that has seen the end to stop."""
    job = submit(http)
    worker.render()
    with watching(http, job) as events:
        everything = list(events)
    assert [event.event for event in everything] == ["state", "state", "done"]
    with watching(http, job, **{"Last-Event-ID": everything[0].id}) as events:
        assert [event.id for event in events] == [event.id for event in everything[1:]]
    url = f"/v1/jobs/{job['id']}/events"
    assert http.get(url, params={"last_event_id": everything[1].id}).text.count("event: ") == 1
    seen = http.get(url, params={"last_event_id": everything[2].id})
    assert (seen.status_code, seen.content) == (204, b"")


def test_an_end_between_two_looks_has_its_id(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are read before the job: one that ends in between tells its end with the id that others see."""
    submit(http)
    lease = worker.claim()
    store = site.services.store
    before = site.call(store.get(lease.job.id))
    after = site.call(store.events(lease.job.id))[-1].seq
    worker.finish(lease)
    (end,) = site.call(store.events(lease.job.id, after))
    events, looks = store.events, [0]

    async def late(job_id: UUID, seen: int = 0) -> tuple[JobEvent, ...]:
        looks[0] += 1
        return await events(job_id, seen) if looks[0] > 1 else ()

    monkeypatch.setattr(store, "events", late)

    async def frames() -> bytes:
        seats = site.services.tail.reserve(None)
        assert seats is not None
        stream = JobStream(site.services, before, after, stays, seats, with_path=True)
        return b"".join([frame async for frame in stream.frames()])

    assert f"id: {end.seq}\n".encode() in site.call(frames())


async def stays() -> bool:
    """A client whose key counts on."""
    return True


def test_a_redriven_jobs_first_end_is_no_end(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Replayed as a change of state; ``done`` comes once."""
    job = submit(http)
    lease = worker.claim()
    site.call(site.services.store.fail(lease.token, JobError(code="bad_output", message="black")))
    http.post(f"/v1/jobs/{job['id']}/retry")
    worker.render()
    with watching(http, job) as events:
        told = [(event.event, event.json()["state"]) for event in events]
    assert [state for _, state in told] == ["queued", "running", "failed", "queued", "running", "succeeded"]
    assert [kind for kind, _ in told].count("done") == 1


def test_every_subscriber_gets_everything_and_a_joined_job_its_leaders_steps(
    http: httpx.Client, worker: Driver
) -> None:
    """Two streams of one job and one of the job that joined it."""
    job = submit(http, seed=1)
    joined = submit(http, seed=1)
    with watching(http, job) as one, watching(http, job) as two, watching(http, joined) as three:
        streams = (one, two, three)
        assert [next(stream).json()["state"] for stream in streams] == ["queued"] * 3
        lease = worker.claim()
        assert [next(stream).json()["state"] for stream in streams] == ["running"] * 3
        worker.step(lease.job.id, 3)
        assert [next(stream).json()["step"] for stream in streams] == [3] * 3
        worker.finish(lease)
        assert [next(stream).event for stream in streams] == ["done"] * 3


def test_heartbeats_carry_no_id(site: Site, http: httpx.Client) -> None:
    """Comments only."""
    object.__setattr__(site.services, "heartbeat_s", 0.05)
    job = submit(http)
    with http.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
        frames: list[str] = []
        for line in response.iter_lines():
            frames.append(line)
            if line.startswith(":"):
                break
    assert frames[-1] == ": heartbeat"
    assert frames[-2] == ""


def test_an_overflowing_subscriber_is_told_to_resync(site: Site) -> None:
    """The inbox is bounded; what is dropped is said."""
    from jobstore.live import Progress

    job_id = uuid4()
    inbox = Subscription(frozenset({job_id}))
    for step in range(1000):
        inbox.offer(Progress(job_id=job_id, step=step, steps=1000, fraction=step / 1001))
    mail = inbox.drain()
    assert mail.overflowed
    assert len(mail.progress) <= 256
    assert mail.progress[-1].step == 999
    assert not inbox.drain().overflowed


def test_streams_cut_by_their_clients_leave_nothing_behind(site: Site, http: httpx.Client) -> None:
    """Hundreds opened and cut: the number of listeners is back at 0."""
    job = submit(http)
    limits = httpx.Limits(max_connections=None)
    for _ in range(3):
        with httpx.Client(base_url=site.url, limits=limits, timeout=LIMIT_S) as many, ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(many.stream("GET", f"/v1/jobs/{job['id']}/events"))
            until(lambda: site.services.tail.listeners == 60)
        until(lambda: site.services.tail.listeners == 0)


def test_too_many_streams_are_refused_with_a_hint(database: str, outputs: Outputs) -> None:
    """503 and Retry-After; a free place is taken again."""
    with (
        Site(database, outputs, with_server(SETTINGS, max_streams=1)).serve() as site,
        httpx.Client(base_url=site.url, timeout=LIMIT_S) as http,
    ):
        job = submit(http)
        with watching(http, job) as events:
            next(events)
            refused = http.get(f"/v1/jobs/{job['id']}/events")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_streams")
            assert refused.headers["retry-after"] == "5"
        until(lambda: site.services.tail.listeners == 0)
        with watching(http, job) as events:
            next(events)


def test_open_streams_end_when_the_process_leaves(database: str, outputs: Outputs) -> None:
    """They end by themselves and the server leaves (``serve`` bounds the wait)."""
    endings: list[list[str]] = []

    def read(url: str, started: threading.Event) -> None:
        with httpx.stream("GET", url, timeout=LIMIT_S) as response:
            lines = []
            for line in response.iter_lines():
                lines.append(line)
                if line.startswith("data"):
                    started.set()
        endings.append(lines)

    with Site(database, outputs).serve() as site, httpx.Client(base_url=site.url) as http:
        job = submit(http)
        starts = [threading.Event() for _ in range(3)]
        threads = [
            threading.Thread(target=read, args=(f"{site.url}/v1/jobs/{job['id']}/events", start)) for start in starts
        ]
        for thread in threads:
            thread.start()
        assert all(start.wait(LIMIT_S) for start in starts)
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(endings) == 3
    assert all(json.loads(lines[-2].removeprefix("data: "))["state"] == "queued" for lines in endings)


def test_a_job_that_does_not_exist_has_no_stream(http: httpx.Client) -> None:
    """404 as a problem, never an empty stream."""
    response = http.get("/v1/jobs/01890000-0000-7000-8000-000000000000/events")
    assert response.status_code == 404
    assert msgspec.json.decode(response.content)["error"]["code"] == "job_not_found"


def test_progress_of_a_lost_attempt_gives_way_to_the_next() -> None:
    """A later attempt replaces what was further; an earlier one's late message and a step back are ignored."""
    from api.live import LiveProgress
    from jobstore.live import Progress

    live, job_id = LiveProgress(), uuid4()
    seen = []
    for attempt, step in ((3, 7), (4, 1), (3, 8), (4, 3), (4, 2)):
        live.note(Progress(job_id=job_id, step=step, steps=8, fraction=step / 9, attempt=attempt))
        seen.append(live._latest[job_id].step)
    assert seen == [7, 1, 1, 3, 3]
