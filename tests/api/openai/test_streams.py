"""``stream: true``: previews and pictures as OpenAI's events."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import msgspec
import pytest
from httpx_sse import EventSource, ServerSentEvent
from PIL import Image

from tests.api.openai.painter import Painter, until
from tests.api.openai.test_edits import file, halves
from tests.api.site import Driver, Site

PATH = "/v1/images/generations"


def events(client: httpx.Client, **fields: Any) -> Iterator[ServerSentEvent]:
    """The events of a stream, to its end."""
    body = {"prompt": "a red circle", "stream": True, "cache": "off"} | fields
    with client.stream("POST", PATH, json=body, headers={"accept-encoding": "gzip"}) as response:
        assert response.status_code == 200
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache"
        assert "content-encoding" not in response.headers
        yield from EventSource(response).iter_sse()


def told(client: httpx.Client, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    """Kinds and data, without the end, which must be there."""
    found = list(events(client, **fields))
    assert found[-1].data == "[DONE]"
    return [(event.event, event.json()) for event in found[:-1]]


@pytest.mark.parametrize("partial_images", [0, 1, 3])
def test_previews_come_as_partial_images_and_then_the_picture(client: httpx.Client, partial_images: int) -> None:
    """Numbered from 0, as many as were asked for at most, all in the format asked for."""
    found = told(client, partial_images=partial_images, output_format="webp", quality="low")
    kinds = [kind for kind, _ in found]
    assert kinds[-1] == "image_generation.completed"
    assert set(kinds[:-1]) <= {"image_generation.partial_image"}
    assert (1 if partial_images else 0) <= len(kinds) - 1 <= partial_images
    for index, (kind, data) in enumerate(found):
        assert data["type"] == kind
        assert Image.open(io.BytesIO(base64.b64decode(data["b64_json"], validate=True))).format == "WEBP"
        assert {"created_at", "size", "quality", "background", "output_format"} <= set(data)
        assert data.get("partial_image_index") == (None if kind.endswith("completed") else index)
    assert found[-1][1]["usage"]["total_tokens"] == 0


def test_several_pictures_are_completed_one_after_the_other(client: httpx.Client) -> None:
    """Each with an event of its own."""
    found = told(client, n=2, seed=1)
    assert [kind for kind, _ in found] == ["image_generation.completed"] * 2
    assert found[0][1]["b64_json"] != found[1][1]["b64_json"]
    assert [data["image_index"] for _, data in found] == [0, 1]


def test_a_preview_tells_which_picture_it_is_of(client: httpx.Client) -> None:
    """Its number counts on over all pictures, as OpenAI's does."""
    partial = [data for kind, data in told(client, n=2, seed=1, partial_images=3) if kind.endswith("partial_image")]
    assert {data["image_index"] for data in partial} <= {0, 1}
    assert [data["partial_image_index"] for data in partial] == list(range(len(partial)))


def test_a_picture_from_the_cache_is_complete_at_once(client: httpx.Client) -> None:
    """There is nothing to preview."""
    client.post(PATH, json={"prompt": "cached", "seed": 2})
    assert [kind for kind, _ in told(client, prompt="cached", seed=2, cache="use", partial_images=2)] == [
        "image_generation.completed"
    ]


def test_a_failed_render_is_told_as_an_error(client: httpx.Client) -> None:
    """In OpenAI's form: SDKs raise it."""
    ((kind, data),) = told(client, prompt="fail")
    assert kind == "error"
    assert data["error"] == {"message": "it went wrong", "type": "server_error", "param": None, "code": "bad_output"}


def test_what_is_wrong_before_is_an_ordinary_error(client: httpx.Client) -> None:
    """With its status."""
    response = client.post(PATH, json={"prompt": "x", "stream": True, "size": "3x3"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "size")


def test_edits_stream_under_their_own_names(client: httpx.Client) -> None:
    """The same otherwise."""
    files = {"image": ("picture", file(halves()), "image/png")}
    data = {"prompt": "a star", "stream": "true", "partial_images": "1"}
    with client.stream("POST", "/v1/images/edits", files=files, data=data) as response:
        found = list(EventSource(response).iter_sse())
    assert {event.event for event in found[:-1]} <= {"image_edit.partial_image", "image_edit.completed"}
    assert msgspec.json.decode(found[-2].data)["type"] == "image_edit.completed"


def test_who_hangs_up_can_have_the_job_canceled(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """A stream is left by closing it; nothing stays behind."""
    with painter.resting():
        body = {"prompt": "left", "stream": True, "cancel_on_disconnect": True}
        with client.stream("POST", PATH, json=body) as response:
            next(response.iter_raw())
        job_id = response.headers["x-safelight-job-id"]
        until(lambda: client.get(f"/v1/jobs/{job_id}").json()["state"] == "canceled")
    until(lambda: studio.services.tail.listeners == 0)


@pytest.mark.parametrize("path", [PATH, "/v1/jobs/{}/events"])
def test_a_heartbeat_comes_while_a_render_goes_on(
    client: httpx.Client, studio: Site, painter: Painter, path: str
) -> None:
    """Progress that puts no byte on the wire does not stand for one."""
    before = studio.services.heartbeat_s
    object.__setattr__(studio.services, "heartbeat_s", 0.4)
    worker = Driver(studio)
    try:
        with painter.resting():
            body = {"prompt": "slow", "stream": path == PATH, "cache": "off"}
            ahead = client.post("/v1/jobs", json={"prompt": "slow", "cache": "off"}) if path != PATH else None
            method = "POST" if ahead is None else "GET"
            where = path if ahead is None else path.format(ahead.json()["id"])
            with client.stream(method, where, json=body if ahead is None else None) as response:
                lines = response.iter_lines()
                next(lines)
                lease = worker.claim()
                for _ in range(100):
                    worker.step(lease.job.id, 1)
                    time.sleep(0.01)
                worker.finish(lease)
                assert ": heartbeat" in list(lines)
    finally:
        object.__setattr__(studio.services, "heartbeat_s", before)


def test_a_stream_of_a_job_that_another_made_cancels_nothing(
    client: httpx.Client, studio: Site, painter: Painter
) -> None:
    """The one that made it does, once nobody else is there."""

    def opened() -> AbstractContextManager[httpx.Response]:
        body = {"prompt": "two", "stream": True, "cancel_on_disconnect": True}
        return client.stream("POST", PATH, json=body, headers={"Idempotency-Key": "two"})

    def listening(streams: int) -> bool:
        return studio.services.tail.listeners == streams

    with painter.resting():
        with opened() as first:
            job_id = first.headers["x-safelight-job-id"]
            with opened() as second:
                assert second.headers["x-safelight-job-id"] == job_id
                until(lambda: listening(2))
            until(lambda: listening(1))
            assert client.get(f"/v1/jobs/{job_id}").json()["state"] == "queued"
        until(lambda: client.get(f"/v1/jobs/{job_id}").json()["state"] == "canceled")
    until(lambda: listening(0))
