"""API processes that die at the wrong moment."""

from __future__ import annotations

import uuid

import httpx
import pytest
from httpx_sse import connect_sse

from tests.chaos import triggers
from tests.chaos.desk import LIMIT_S, Desk
from tests.chaos.faults import kill
from tests.chaos.house import House
from tests.chaos.member import url_of
from tests.e2e.processes import wait_for


def test_killed_between_commit_and_bell(house: House, desk: Desk) -> None:
    """The client has no answer, but the job is there, and is rendered though nobody rang for it."""
    mark = uuid.uuid4().hex
    (house.triggers / triggers.DIE_AT_RING).touch()
    body = {"prompt": "a red circle", "cache": "off", "dimensions": {"mark": mark}}
    with pytest.raises(httpx.TransportError):
        httpx.post(f"{url_of(house.apis[0])}/v1/jobs", json=body, timeout=LIMIT_S)
    (row,) = house.rows("SELECT id FROM job WHERE dimensions ->> 'mark' = %s", [mark])
    desk.accepted[row["id"]] = ("succeeded",)
    desk.wait(str(row["id"]))


def test_killed_in_mid_stream(house: House, desk: Desk) -> None:
    """A client that goes on at another process by its last id has every durable event once, in order."""
    job_id = desk.submit(steps=300)
    desk.running(job_id)
    first, second = house.apis
    seen = read_events(url_of(first), job_id, "", stop_at=lambda: kill(house, first))
    assert seen
    seen += read_events(url_of(second), job_id, seen[-1])
    rows = house.rows("SELECT seq FROM job_event WHERE job_id = %s ORDER BY seq", [job_id])
    assert [int(event) for event in seen] == [row["seq"] for row in rows]
    assert desk.wait(job_id)["state"] == "succeeded"
    wait_for("the killed one to be back", lambda: first.alive)


def read_events(url: str, job_id: str, last: str, stop_at: object = None) -> list[str]:
    """Ids of the durable events of a stream until it ends; ``stop_at`` is called at the first."""
    seen: list[str] = []
    headers = {"Last-Event-ID": last} if last else {}
    try:
        with (
            httpx.Client(timeout=LIMIT_S) as http,
            connect_sse(http, "GET", f"{url}/v1/jobs/{job_id}/events", headers=headers) as stream,
        ):
            for event in stream.iter_sse():
                if event.event in ("state", "done") and event.id and event.id not in (last, *seen):
                    seen.append(event.id)
                if event.event == "progress" and callable(stop_at):
                    stop_at()
    except httpx.TransportError:
        assert stop_at is not None
    return seen
