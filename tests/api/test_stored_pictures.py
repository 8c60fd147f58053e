"""Outputs that fail or lie: a submit is taken all the same, and a broken picture is never handed out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from obstore.exceptions import GenericError

from jobstore.job import Picture
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem


async def away(*_arguments: Any) -> Any:
    """Outputs that can't be reached."""
    raise GenericError("the bucket is away")


def rendered(site: Site, http: httpx.Client, worker: Driver) -> tuple[dict[str, Any], Picture]:
    """A job that succeeded, and its picture."""
    job = submit(http, seed=1)
    lease = worker.render()
    return job, site.call(site.services.store.get(lease.job.id)).pictures[0]


@pytest.mark.parametrize("format", ["png", "webp"])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbled"])
def test_a_damaged_picture_is_a_miss(site: Site, http: httpx.Client, worker: Driver, format: str, damage: str) -> None:
    """As it lies there and transcoded; the entry is dropped."""
    _, picture = rendered(site, http, worker)
    data = site.call(site.outputs.get(picture.key))
    broken = {"empty": b"", "cut": data[:-10], "garbled": b"x" * len(data)}[damage]
    site.call(site.outputs.put(picture.key, broken, "image/png"))
    expected = "hit" if (damage, format) == ("garbled", "png") else "miss"  # only decoding tells
    assert submit(http, seed=1, format=format)["cache"] == expected


@pytest.mark.parametrize("broken", ["size", "get", "put"])
def test_a_submit_is_taken_while_the_outputs_are_away(
    site: Site, http: httpx.Client, worker: Driver, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A miss with a bell; the entry stays for when they are back."""
    rendered(site, http, worker)
    with monkeypatch.context() as patch:
        patch.setattr(site.outputs, broken, away)
        job = submit(http, seed=1, format="png" if broken == "size" else "webp")
        assert (job["state"], job["cache"]) == ("queued", "miss")
        http.post(f"/v1/jobs/{job['id']}/cancel")
    assert submit(http, seed=1)["cache"] == "hit"


def test_a_picture_that_cannot_be_read_is_no_picture(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 while the outputs are away, 500 where a part is missing, neither to be cached."""
    job, picture = rendered(site, http, worker)
    path = f"/v1/jobs/{job['id']}/images/0"
    with monkeypatch.context() as patch:
        patch.setattr(site.outputs, "get", away)
        response = http.get(path)
        assert_problem(response, 503)
        assert response.headers["retry-after"] == "5"
    site.call(site.outputs.put(picture.key, b"", "image/png"))
    response = http.get(path)
    assert_problem(response, 500)
    assert response.json()["error"]["code"] == "image_damaged"
    assert "cache-control" not in response.headers
