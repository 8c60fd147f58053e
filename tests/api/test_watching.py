"""Many jobs' events in one stream, over real HTTP."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent

from jobstore.job import Job
from jobstore.live import Preview
from jobstore.outputs import Outputs
from tests.api.site import SETTINGS, Driver, Site, with_server
from tests.api.test_events import until
from tests.api.test_jobs import submit
from tests.contract.keying import make_key


@contextmanager
def watching(http: httpx.Client, *ids: str, **headers: str) -> Iterator[Iterator[ServerSentEvent]]:
    """The events of these jobs, as they come."""
    with http.stream("GET", "/v1/jobs/events", params={"ids": ",".join(ids)}, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield EventSource(response).iter_sse()


def told(event: ServerSentEvent) -> tuple[str, str, Any]:
    """What an event is, of which job, and the state that it tells."""
    data = event.json()
    return event.event, data["job_id"], data.get("state")


def test_the_events_of_several_jobs_come_in_one_stream(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Each names its job; none has an id; the stream ends with the last job, and leaves no listener."""
    first, second = (submit(http, seed=seed) for seed in (1, 2))
    with watching(http, first["id"], second["id"]) as events:
        assert {told(next(events)) for _ in range(2)} == {("state", job["id"], "queued") for job in (first, second)}
        lease = worker.claim()
        assert told(next(events)) == ("state", first["id"], "running")
        worker.step(lease.job.id, 4)
        step = next(events)
        assert (step.event, step.json()["job_id"], step.json()["step"]) == ("progress", first["id"], 4)
        worker.preview(lease.job.id, 4)
        preview = next(events)
        assert (preview.event, preview.json()["job_id"], preview.json()["index"]) == ("preview", first["id"], 0)
        worker.finish(lease)
        done = next(events)
        assert told(done) == ("done", first["id"], "succeeded")
        assert done.json() == {"job_id": first["id"]} | http.get(f"/v1/jobs/{first['id']}").json()
        http.post(f"/v1/jobs/{second['id']}/cancel")
        assert [told(event) for event in events] == [("done", second["id"], "canceled")]
    assert done.id == ""
    until(lambda: site.services.tail.listeners == 0)


def test_who_hangs_up_leaves_no_listener(site: Site, http: httpx.Client) -> None:
    """Every job's own stream ends with the one that they share."""
    jobs = [submit(http, seed=seed) for seed in range(5)]
    with watching(http, *(job["id"] for job in jobs)) as events:
        assert {told(next(events))[1] for _ in jobs} == {job["id"] for job in jobs}
        assert site.services.tail.listeners == len(jobs)
    until(lambda: site.services.tail.listeners == 0)


def test_what_the_key_may_not_see_is_gone(site: Site, http: httpx.Client) -> None:
    """Another key's job as much as one that never was; the rest is told all the same."""
    store = site.services.store
    ann, bob = ({"authorization": f"Bearer {site.call(make_key(store, name))}"} for name in ("ann", "bob"))
    own, foreign = (http.post("/v1/jobs", json={"prompt": "x"}, headers=key).json()["id"] for key in (ann, bob))
    missing = str(uuid4())
    with watching(http, foreign, own, missing, **ann) as events:
        first = [told(next(events)) for _ in range(3)]
    assert sorted(first) == sorted([("gone", foreign, None), ("gone", missing, None), ("state", own, "queued")])


@pytest.mark.parametrize("ids", ["", "x", f"{UUID(int=1)},", ",".join(str(UUID(int=n)) for n in range(51))])
def test_ids_that_are_none_are_refused(http: httpx.Client, ids: str) -> None:
    """By the parameter's name."""
    response = http.get("/v1/jobs/events", params={"ids": ids})
    assert (response.status_code, response.json()["field"]) == (400, "ids")
    assert "1 to 50 ids" in response.json()["detail"]


def test_ten_jobs_count_as_a_stream(database: str, outputs: Outputs) -> None:
    """So that the settings bound what one process follows."""
    with (
        Site(database, outputs, with_server(SETTINGS, max_streams=1)).serve() as site,
        httpx.Client(base_url=site.url, timeout=20) as http,
    ):
        ids = [submit(http, seed=seed)["id"] for seed in range(11)]
        response = http.get("/v1/jobs/events", params={"ids": ",".join(ids)})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "too_many_streams")
        with watching(http, *ids[:10]) as events:
            assert next(events).event == "state"


def test_who_reads_nothing_is_cut_off(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep its seat, and what waits for it, for ever."""
    monkeypatch.setattr("api.frame._UNREAD_S", 0.05)
    job = submit(http)
    lease = worker.claim()
    with socket.create_connection(("127.0.0.1", int(site.url.rpartition(":")[2]))) as client:
        client.sendall(f"GET /v1/jobs/{job['id']}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        until(lambda: site.services.tail.listeners == 1)
        step = itertools.count()

        def cut_off() -> bool:
            image = bytes(1_000_000)
            site.channel.publish(
                Preview(job_id=lease.job.id, attempt=0, index=0, step=next(step), steps=8, image=image, media_type="")
            )
            return site.services.tail.listeners == 0

        until(cut_off)


def test_streams_that_are_about_to_begin_have_their_seats(database: str, outputs: Outputs) -> None:
    """So requests at the same moment don't overshoot the bound; who never begins keeps none for long."""
    with (
        Site(database, outputs, with_server(SETTINGS, max_streams=2)).serve() as site,
        httpx.Client(base_url=site.url, timeout=20) as http,
    ):
        job = submit(http)["id"]
        tail = site.services.tail
        seats = tail.reserve(None, 11)
        assert seats is not None
        for path in ("/v1/jobs/events?ids=" + job, f"/v1/jobs/{job}/events", "/admin/live"):
            assert http.get(path).status_code == 503
        seats.until = time.monotonic() - 1
        with watching(http, job) as events:
            assert next(events).event == "state"
            assert tail.listeners == 1
            assert tail.reserve(None, 11) is None
            one = tail.reserve(None)
            assert one is not None
            assert tail.reserve(None) is None
            tail.unsubscribe(tail.subscribe(frozenset(), one))
            assert tail.reserve(None) is not None


def test_many_jobs_are_looked_up_in_one_query(site: Site, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty of them would be fifty, each with its place in the queue counted."""
    jobs = [submit(http, seed=seed)["id"] for seed in range(3)]
    store = site.services.store
    asked: list[int] = []
    found = store.get_many

    async def counted(ids: Sequence[UUID]) -> tuple[Job, ...]:
        asked.append(len(ids))
        return await found(ids)

    monkeypatch.setattr(store, "get_many", counted)
    with watching(http, *jobs) as events:
        assert {told(next(events))[1] for _ in jobs} == {*jobs}
    assert asked == [3]
