"""The limits of the queue over HTTP: who is refused, what they are told, and who is answered all the same."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import REGISTRY

from api.problems import ProblemError
from api.resolve import resolve
from api.schemas import SubmitRequest
from api.submitting import Accepted, accept
from jobstore.job import Replay
from jobstore.outputs import Outputs
from safelight.config import LimitSettings
from tests.api.site import LIMIT_S, SETTINGS, Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.contract.keying import make_key

LIMITS = LimitSettings(max_queued=5, max_queued_per_lane=4, max_queued_per_key=3)
BODY = {"prompt": "a red circle"}
WIDE = {**BODY, "model": "wide", "size": "256x256"}


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """The API with room for few."""
    with Site(database, outputs, msgspec.structs.replace(SETTINGS, limits=LIMITS)).serve() as site:
        yield site


def new_keys(site: Site, *names: str) -> list[dict[str, str]]:
    """The headers of fresh keys."""
    found = []
    for name in names:
        secret = site.call(make_key(site.services.store, name, admin=name == "admin"))
        found.append({"authorization": f"Bearer {secret}"})
    site.services.keys.forget()
    return found


def refused(limit: str) -> float:
    """How many were, so far."""
    return REGISTRY.get_sample_value("safelight_submits_refused_total", {"limit": limit}) or 0.0


def assert_full(response: httpx.Response, limit: str) -> None:
    """The answer says which limit is reached and when to come again."""
    assert_problem(response, 429)
    assert response.json()["error"]["code"] == "queue_full"
    assert f"({limit})" in response.json()["detail"]
    assert response.headers["x-should-retry"] == "true"
    assert 1 <= int(response.headers["retry-after"]) <= 120


def test_each_limit_refuses_and_writes_nothing(site: Site, http: httpx.Client) -> None:
    """That of the key first, then the lane's, then the one in all; another lane or key has its own."""
    ann, bob, cid, admin = new_keys(site, "ann", "bob", "cid", "admin")
    before = {limit: refused(limit) for limit in ("max_queued", "max_queued_per_lane", "max_queued_per_key")}
    tries: list[tuple[dict[str, str], dict[str, Any], str | None]] = [
        *[(ann, BODY, None)] * 3,
        (ann, BODY, "max_queued_per_key"),
        (bob, BODY, None),
        (bob, BODY, "max_queued_per_lane"),
        (bob, WIDE, None),
        (cid, WIDE, "max_queued"),
        (cid, WIDE, "max_queued"),
    ]
    for headers, body, limit in tries:
        response = http.post("/v1/jobs", json=body, headers=headers)
        if limit is None:
            assert response.status_code == 202, response.text
        else:
            assert_full(response, limit)
            assert response.headers["retry-after"] == "30"  # no worker serves the lane
    assert len(http.get("/v1/jobs", headers=admin).json()["data"]) == 5
    assert len(site.bell.rung) == 5
    assert {limit: refused(limit) - count for limit, count in before.items()} == {
        "max_queued": 2, "max_queued_per_lane": 1, "max_queued_per_key": 1,
    }  # fmt: skip


def test_there_is_room_again_once_jobs_have_started(site: Site, http: httpx.Client, worker: Driver) -> None:
    """As soon as the next snapshot tells."""
    for seed in range(3):
        submit(http, seed=seed)
    assert_full(http.post("/v1/jobs", json=BODY), "max_queued_per_key")
    worker.claim()
    site.call(site.services.backpressure.refresh())
    submit(http, seed=9)
    response = http.post("/v1/jobs", json=BODY)
    assert_full(response, "max_queued_per_key")


def test_what_adds_nothing_to_the_queue_is_answered(site: Site, http: httpx.Client, worker: Driver) -> None:
    """A repeat of an accepted job, and a hit."""
    submit(http, seed=0)
    worker.render()
    site.call(site.services.backpressure.refresh())
    headers = {"Idempotency-Key": "k"}
    first = http.post("/v1/jobs", json=BODY, headers=headers).json()
    sdk = http.post("/v1/jobs", json=BODY, headers={"x-stainless-retry-count": "0"}).json()
    submit(http, seed=3)
    assert_full(http.post("/v1/jobs", json=BODY), "max_queued_per_key")
    assert_full(http.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "new"}), "max_queued_per_key")
    assert http.post("/v1/jobs", json=BODY, headers=headers).json()["id"] == first["id"]
    again = http.post("/v1/jobs", json=BODY, headers={"x-stainless-retry-count": "1"})
    assert (again.status_code, again.json()["id"]) == (202, sdk["id"])
    for _ in range(5):
        assert submit(http, seed=0)["cache"] == "hit"


def test_many_at_once_find_no_more_room_than_there_is(site: Site) -> None:
    """Places are held while a submit is under way."""
    with httpx.Client(base_url=site.url, timeout=LIMIT_S) as many, ThreadPoolExecutor(30) as pool:
        codes = list(pool.map(lambda seed: many.post("/v1/jobs", json={**BODY, "seed": seed}).status_code, range(30)))
    assert (codes.count(202), codes.count(429)) == (3, 27)
    assert site.bell.rung == ["default"] * 3


def test_a_queue_left_full_is_full_for_the_next_process(database: str, outputs: Outputs, site: Site) -> None:
    """It counts before it takes anything in."""
    with httpx.Client(base_url=site.url, timeout=LIMIT_S) as http:
        for seed in range(3):
            submit(http, seed=seed)
    other = Site(database, outputs, site.settings)
    with other.serve(), httpx.Client(base_url=other.url, timeout=LIMIT_S) as http:
        assert_full(http.post("/v1/jobs", json=BODY), "max_queued_per_key")


def test_a_revival_that_comes_second_gets_the_first_ones_job_though_the_queue_is_full(
    site: Site, http: httpx.Client
) -> None:
    """It adds nothing. One that would make a job of its own is refused as any other, and leaves the key as it is."""
    known = Replay(key="key:again", body_sha256="b")

    def tried(replay: Replay) -> Accepted:
        new = resolve(SubmitRequest(prompt="a red circle"), {}, None, site.settings, replay)
        return site.call(accept(site.services, new, seed_drawn=True))

    first = tried(known).job
    http.post(f"/v1/jobs/{first.id}/cancel").raise_for_status()
    revival = msgspec.structs.replace(known, instead_of=first.id)
    made = tried(revival)
    assert (made.replayed, made.job.id == first.id) == (False, False)
    while http.post("/v1/jobs", json=BODY).status_code == 202:
        pass
    assert (tried(revival).job.id, tried(revival).replayed) == (made.job.id, True)
    with pytest.raises(ProblemError) as full:
        tried(msgspec.structs.replace(known, instead_of=made.job.id))
    assert full.value.code == "queue_full"
    assert tried(known).job.id == made.job.id
