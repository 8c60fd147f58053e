"""Submit, read, list, cancel, retry: what a client relies on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.site import SETTINGS, Driver, Site, image_of


def submit(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    """The job of a submit that must be taken."""
    response = http.post("/v1/jobs", json={"prompt": "a red circle", **fields})
    assert response.status_code in (200, 202), response.text
    return dict(response.json())


def test_a_submit_is_a_ticket_that_names_every_default(site: Site, http: httpx.Client) -> None:
    """202 with the job's address; the request as resolved, a drawn seed, the price reserved, one bell."""
    response = http.post("/v1/jobs", json={"prompt": "a red circle", "n": 2, "dimensions": {"team": "a"}})
    job = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    request = job["request"]
    assert (request["size"], request["steps"], request["guidance"], request["n"]) == ("128x128", 8, 0.0, 2)
    assert 0 <= request["seed"] < 2**53
    assert (job["object"], job["state"], job["model"], job["cache"]) == ("job", "queued", "scenes", "miss")
    assert job["cost"] == {"currency": "USD", "reserved": "0.02", "charged": "0", "gpu_seconds": "0"}
    assert job["progress"] == {"step": 0, "steps": 8, "fraction": 0.0}
    assert job["dimensions"] == {"team": "a"}
    assert site.bell.rung == ["default"]
    read = http.get(response.headers["location"]).json()
    assert read == job
    assert job["queue"] == {"position": 1, "eta_s": None, "paused": False}


def test_adapters_are_resolved(http: httpx.Client) -> None:
    """Sorted, each with its weight: the request's own or the settings'; they are offered with their model."""
    for wanted in (["watercolor", "ink"], {"watercolor": 0.7, "ink": 1}):
        job = submit(http, adapters=wanted, seed=1)
        assert list(job["request"]["adapters"].items()) == [("ink", 1.0), ("watercolor", 0.7)]
        assert http.get(f"/v1/jobs/{job['id']}").json()["request"] == job["request"]
    assert job["cache"] == "joined"
    assert submit(http, adapters=["ink"], seed=1)["cache"] == "miss"
    assert submit(http, adapters={"ink": -0.5}, seed=1)["request"]["adapters"] == {"ink": -0.5}
    nothing: tuple[Any, ...] = (None, [], {})
    assert [submit(http, adapters=none)["request"]["adapters"] for none in nothing] == [{}, {}, {}]
    offered = {model["id"]: model["adapters"] for model in http.get("/v1/models").json()["data"]}
    assert offered == {"scenes": ["ink", "watercolor"], "wide": []}
    refused = http.post("/v1/jobs", json={"prompt": "x", "adapters": ["inc"]})
    assert (refused.status_code, refused.json()["field"]) == (400, "adapters")


def test_previews_are_resolved(http: httpx.Client) -> None:
    """Yes (about five a picture), no, or so many steps; nothing said is what the settings say."""
    told = [submit(http, steps=20, previews=wanted)["request"]["previews"] for wanted in (None, False, True, 0, 2)]
    assert told == [0, 0, 4, 0, 2]
    assert submit(http, steps=2, previews=True)["request"]["previews"] == 1


def test_pictures_are_served_with_their_digest(http: httpx.Client, worker: Driver) -> None:
    """Bytes, type, a strong ETag, and 304 for who has them already; each picture has a seed of its own."""
    job = submit(http, seed=5, n=2)
    assert http.get(f"/v1/jobs/{job['id']}/images/0").status_code == 409
    worker.render()
    job = http.get(f"/v1/jobs/{job['id']}").json()
    assert job["state"] == "succeeded"
    assert job["progress"]["fraction"] == 1.0
    assert job["cost"]["charged"] == "0.02"
    assert [image["seed"] for image in job["images"]] == [5, 6]
    response = http.get(job["images"][1]["url"])
    assert response.headers["content-type"] == "image/png"
    assert response.headers["etag"] == f'"{job["images"][1]["sha256"]}"'
    assert "immutable" in response.headers["cache-control"]
    assert image_of(response.content).size == (128, 128)
    again = http.get(job["images"][1]["url"], headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert http.get(f"/v1/jobs/{job['id']}/images/2").status_code == 404


def test_a_repeat_is_a_hit_at_no_cost_and_rings_nobody(site: Site, http: httpx.Client, worker: Driver) -> None:
    """200, the same pictures, nothing charged."""
    first = submit(http, seed=1)
    worker.render()
    response = http.post("/v1/jobs", json={"prompt": "a red circle", "seed": "1"})
    hit = response.json()
    assert response.status_code == 200
    assert (hit["state"], hit["cache"], hit["cost"]["charged"]) == ("succeeded", "hit", "0")
    assert hit["images"][0]["sha256"] == http.get(f"/v1/jobs/{first['id']}").json()["images"][0]["sha256"]
    assert site.bell.rung == ["default"]
    for change in ({"seed": 2}, {"size": "64x64"}, {"steps": 9}, {"cache": "off"}, {"cache": "refresh"}):
        assert submit(http, **{"seed": 1, **change})["cache"] == "miss"


def test_a_hit_in_another_format_is_transcoded_with_its_parameters(http: httpx.Client, worker: Driver) -> None:
    """The same pixels as JPEG, under the new job."""
    submit(http, seed=1)
    worker.render()
    hit = submit(http, seed=1, format="webp")
    assert hit["cache"] == "hit"
    response = http.get(hit["images"][0]["url"])
    assert response.headers["content-type"] == "image/webp"
    assert image_of(response.content).format == "WEBP"


def test_a_purged_picture_is_a_miss(site: Site, http: httpx.Client, worker: Driver) -> None:
    """The entry is dropped and the job rendered; the old job's picture is a 404 that says so."""
    first = submit(http, seed=1)
    settled = worker.finish(worker.claim())
    site.call(site.outputs.delete([settled.job.pictures[0].key]))
    gone = http.get(f"/v1/jobs/{first['id']}/images/0")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "image_purged")
    assert submit(http, seed=1)["cache"] == "miss"


def test_any_takes_an_earlier_picture_and_tells_its_seed(http: httpx.Client, worker: Driver) -> None:
    """No seed asked: the seed told is the one that was drawn with, and gives the same picture again."""
    first = submit(http)
    worker.render()
    hit = submit(http, cache="any")
    assert hit["cache"] == "hit"
    assert hit["request"]["seed"] == first["request"]["seed"] == hit["images"][0]["seed"]


def test_an_identical_request_in_flight_joins(site: Site, http: httpx.Client, worker: Driver) -> None:
    """One render for both; the second follows the first's progress and costs nothing."""
    submit(http, seed=1)
    second = submit(http, seed=1)
    assert second["cache"] == "joined"
    assert site.bell.rung == ["default"] * 2  # the second for a claim that passed by while the first was joined
    lease = worker.claim()
    worker.step(lease.job.id, 4)
    site.call(_turn())
    assert http.get(f"/v1/jobs/{second['id']}").json()["progress"]["step"] == 4
    worker.finish(lease)
    job = http.get(f"/v1/jobs/{second['id']}").json()
    assert (job["state"], job["cost"]["charged"]) == ("succeeded", "0")


async def _turn() -> None:
    """Let the loop do what was scheduled before."""


@pytest.mark.parametrize("seed", [0, 2**32, 2**53 - 1, "0", str(2**53 - 1)])
def test_a_seed_is_kept_to_the_last_digit(http: httpx.Client, seed: int | str) -> None:
    """As number and as string, up to 2^53-1."""
    assert submit(http, seed=seed)["request"]["seed"] == int(seed)


@pytest.mark.parametrize("seed", [None, -1, "-1"])
def test_no_seed_draws_one_and_tells_it(http: httpx.Client, seed: int | str | None) -> None:
    """Two of them differ."""
    drawn = {submit(http, seed=seed)["request"]["seed"] for _ in range(2)}
    assert len(drawn) == 2


def test_dimensions_come_from_headers_too_and_the_body_wins(http: httpx.Client) -> None:
    """``x-bf-dim-<name>``, names in lower case."""
    headers = {"X-BF-Dim-Team": "header", "x-bf-dim-project": "p"}
    response = http.post("/v1/jobs", json={"prompt": "x", "dimensions": {"team": "body"}}, headers=headers)
    assert response.json()["dimensions"] == {"team": "body", "project": "p"}


def test_a_queued_job_is_canceled_at_once_and_again_without_effect(http: httpx.Client) -> None:
    """Cost 0, never started."""
    job = submit(http)
    for _ in range(2):
        canceled = http.post(f"/v1/jobs/{job['id']}/cancel").json()
        assert (canceled["state"], canceled["started_at"], canceled["cost"]["charged"]) == ("canceled", None, "0")
        assert canceled["cost"]["reserved"] == "0"


def test_a_running_job_is_asked_to_stop(http: httpx.Client, worker: Driver) -> None:
    """It stays running until its worker is at a step boundary."""
    job = submit(http)
    worker.claim()
    canceled = http.post(f"/v1/jobs/{job['id']}/cancel").json()
    assert (canceled["state"], canceled["cancel_requested"]) == ("running", True)


def test_retry_is_for_failed_and_dead_jobs(site: Site, http: httpx.Client, worker: Driver) -> None:
    """409 before; afterwards queued with a bell."""
    from jobstore.job import JobError

    job = submit(http)
    refused = http.post(f"/v1/jobs/{job['id']}/retry")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "illegal_transition")
    lease = worker.claim()
    site.call(site.services.store.fail(lease.token, JobError(code="bad_output", message="all black")))
    failed = http.get(f"/v1/jobs/{job['id']}").json()
    assert (failed["state"], failed["error"]["code"]) == ("failed", "bad_output")
    assert http.post(f"/v1/jobs/{job['id']}/retry").json()["state"] == "queued"
    assert site.bell.rung == ["default", "default"]


def test_the_list_pages_newest_first(http: httpx.Client) -> None:
    """By cursor, filtered by state and model (alias too)."""
    ids = [submit(http, model=name, size=size)["id"] for name, size in [("scenes", None), ("wide", "512x512")] * 3]
    seen: list[str] = []
    cursor = None
    while True:
        page = http.get("/v1/jobs", params={"limit": 4, **({"cursor": cursor} if cursor else {})}).json()
        seen += [job["id"] for job in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert len(http.get("/v1/jobs", params={"model": "shapes"}).json()["data"]) == 3
    assert http.get("/v1/jobs", params={"state": "running"}).json()["data"] == []


def test_a_job_for_later_is_scheduled_without_a_bell(site: Site, http: httpx.Client) -> None:
    """``start_at`` with a time zone; one that has passed means now."""
    from datetime import UTC, datetime, timedelta

    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert submit(http, start_at=later)["state"] == "scheduled"
    assert site.bell.rung == []
    assert submit(http, start_at="2001-01-01T00:00:00Z")["state"] == "queued"


def test_models_come_in_openais_form(http: httpx.Client) -> None:
    """With what a form needs to know."""
    models = http.get("/v1/models").json()
    assert models["object"] == "list"
    assert [(model["id"], model["object"], model["default"]) for model in models["data"]] == [
        ("scenes", "model", True),
        ("wide", "model", False),
    ]
    sides = [(model["min_side"], model["max_side"]) for model in models["data"]]
    assert sides[0] == (64, 128), "those of the listed sizes"
    assert sides[1] == (256, SETTINGS.models["wide"].max_side), "the bounds, where any size will do"


def test_any_text_survives_unharmed(http: httpx.Client) -> None:
    """Beyond ASCII and beyond the basic plane."""
    assert submit(http, prompt="ō 😄 飞翔")["request"]["prompt"] == "ō 😄 飞翔"


def test_a_start_beyond_its_deadlines_is_refused(http: httpx.Client) -> None:
    """It could only fail: both count from the submit."""
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for name in ("deadline_s", "start_deadline_s"):
        response = http.post("/v1/jobs", json={"prompt": "a circle", "start_at": later, name: 60})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == name
