"""Repeated submits: one job, one bell, one render, whatever became of the first answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client import REGISTRY

from jobstore.job import JobError, JobState
from jobstore.retention import Ages
from tests.api.site import LIMIT_S, Driver, Site
from tests.api.test_events import until
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.contract.keying import make_key

BODY = {"prompt": "a red circle"}


def send(
    http: httpx.Client,
    body: Mapping[str, Any] = BODY,
    key: str = '"k"',
    headers: Mapping[str, str] = {},
) -> httpx.Response:
    """A submit under a key."""
    return http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key, **headers})


def retried(http: httpx.Client, count: int, body: Mapping[str, Any] = BODY) -> httpx.Response:
    """A try of an SDK that sends no key."""
    headers = {"x-stainless-retry-count": str(count)}
    return http.post("/v1/jobs", json=body, headers=headers)


def listed(http: httpx.Client) -> list[str]:
    """All jobs' ids, newest first."""
    return [job["id"] for job in http.get("/v1/jobs", params={"limit": 200}).json()["data"]]


@contextmanager
def counting(cache: str, by: str = "key") -> Iterator[dict[str, float]]:
    """How many jobs were accepted, and how many submits replayed, within the block."""

    def now() -> dict[str, float]:
        labels = {"model": "scenes", "cache": cache}
        return {
            "accepted": REGISTRY.get_sample_value("safelight_jobs_submitted_total", labels) or 0.0,
            "replayed": REGISTRY.get_sample_value("safelight_submits_replayed_total", {"by": by}) or 0.0,
        }

    before, told = now(), dict[str, float]()
    yield told
    told.update({name: count - before[name] for name, count in now().items()})


def test_a_repeat_gets_the_first_ones_job(site: Site, http: httpx.Client, worker: Driver) -> None:
    """As it stands by then, with a header that says so: no row, no bell and no count of its own."""
    with counting("miss") as told:
        first = send(http)
        assert (first.status_code, "idempotency-replayed" in first.headers) == (202, False)
        again = send(http, key="k")
        assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
        assert again.json() == first.json()
        assert again.headers["location"] == first.headers["location"]
        worker.render()
        ended = send(http)
    assert (ended.status_code, ended.headers["idempotency-replayed"]) == (200, "true")
    assert (ended.json()["id"], ended.json()["state"]) == (first.json()["id"], "succeeded")
    assert listed(http) == [first.json()["id"]]
    assert site.bell.rung == ["default"]
    assert told == {"accepted": 1, "replayed": 2}


def test_another_request_under_the_key_is_a_422(site: Site, http: httpx.Client) -> None:
    """Whatever differs, a dimension in a header too; nothing is written, and the first one is still answered."""
    first = send(http).json()
    for response in (
        send(http, {**BODY, "seed": 1}),
        send(http, {**BODY, "dimensions": {"team": "a"}}),
        send(http, headers={"x-bf-dim-team": "a"}),
    ):
        assert_problem(response, 422, "Idempotency-Key")
        assert response.json()["error"]["code"] == "idempotency_key_reused"
    assert send(http).json()["id"] == first["id"]
    assert listed(http) == [first["id"]]
    assert site.bell.rung == ["default"]


@pytest.mark.parametrize("key", ["", '""', "a b", "x" * 256, '"open', "caf\xe9"])
def test_a_key_that_is_none_is_a_400(http: httpx.Client, key: str) -> None:
    """It names the header, and nothing is written."""
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    assert_problem(http.post("/v1/jobs", json=BODY, headers=headers), 400, "Idempotency-Key")
    assert listed(http) == []


def test_a_key_sent_twice_is_a_400(http: httpx.Client) -> None:
    """Nobody can tell which is meant."""
    headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
    assert_problem(http.post("/v1/jobs", json=BODY, headers=headers), 400, "Idempotency-Key")


def test_fifty_at_once_make_one_job(site: Site) -> None:
    """One row, one bell; each gets the same job."""
    with (
        httpx.Client(base_url=site.url, timeout=LIMIT_S) as many,
        ThreadPoolExecutor(50) as pool,
        counting("miss") as told,
    ):
        answers = list(pool.map(lambda _: send(many), range(50)))
        assert {answer.status_code for answer in answers} == {202}
        (job_id,) = {answer.json()["id"] for answer in answers}
        assert listed(many) == [job_id]
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert site.bell.rung == ["default"]
    assert told == {"accepted": 1, "replayed": 49}


@pytest.mark.parametrize("arrived", [True, False], ids=["after it arrived", "at once"])
def test_a_connection_that_breaks_after_the_body_renders_once(site: Site, http: httpx.Client, arrived: bool) -> None:
    """The client never saw the answer; it asks again with its key, whether the first request was read or not."""
    address, body = urlsplit(site.url), json.dumps(BODY).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    head += f'Idempotency-Key: "k"\r\nContent-Length: {len(body)}\r\n\r\n'
    with socket.create_connection((address.hostname or "", address.port or 0), LIMIT_S) as connection:
        connection.sendall(head.encode() + body)
        if arrived:
            until(lambda: len(listed(http)) == 1)
    again = send(http)
    assert again.status_code == 202
    assert not arrived or again.headers["idempotency-replayed"] == "true"
    assert listed(http) == [again.json()["id"]]
    assert site.bell.rung == ["default"]


def test_neither_cache_nor_a_drawn_seed_hides_the_first_job(http: httpx.Client, worker: Driver) -> None:
    """A repeat is no hit, even where there are pictures for it; a hit repeated is that hit."""
    drawn = send(http, key="drawn").json()
    seeded = send(http, {**BODY, "seed": 1}, "seeded").json()
    worker.render()
    worker.render()
    assert send(http, key="drawn").json()["request"]["seed"] == drawn["request"]["seed"]
    assert send(http, {**BODY, "seed": 1}, "seeded").json()["id"] == seeded["id"]
    hit = send(http, {**BODY, "seed": 1}, "another")
    assert (hit.status_code, hit.json()["cache"], "idempotency-replayed" in hit.headers) == (200, "hit", False)
    with counting("hit") as told:
        again = send(http, {**BODY, "seed": 1}, "another")
    assert again.json() == hit.json()
    assert told == {"accepted": 0, "replayed": 1}
    assert len(listed(http)) == 3


def test_a_failed_job_is_the_answer_too(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Who wants another render sends another key."""
    job = send(http).json()
    site.call(site.services.store.fail(worker.claim().token, JobError(code="bad_output", message="black")))
    again = send(http)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (202, job["id"], "failed")
    assert send(http, key="new").json()["id"] != job["id"]


def test_a_key_whose_job_is_gone_is_a_409_that_helps(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SDK is told not to try it again."""
    monkeypatch.setattr("jobstore.postgres.retention.ARCHIVE_AFTER_S", 0.0)
    send(http)
    worker.render()
    site.call(site.services.store.purge(Ages(jobs=0.0)))
    response = send(http)
    assert_problem(response, 409, "Idempotency-Key")
    assert response.json()["error"]["code"] == "idempotency_key_expired"
    assert "new key" in response.json()["detail"]
    assert response.headers["x-should-retry"] == "false"


def test_keys_belong_to_the_api_key(site: Site, http: httpx.Client) -> None:
    """Two clients may choose the same; neither sees the other's job."""
    headers = []
    for name in ("ann", "bob"):
        secret = site.call(make_key(site.services.store, name))
        headers.append({"authorization": f"Bearer {secret}"})
    site.services.keys.forget()
    ids = [send(http, headers=who).json()["id"] for who in (*headers, *headers)]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]
    assert send(http, {**BODY, "seed": 1}, headers=headers[0]).status_code == 422


def test_an_sdks_retry_joins_its_first_try(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Also once that has ended, and though the seed is drawn. The next first try is a job of its own."""
    with counting("miss", "sdk") as told:
        first = retried(http, 0)
        assert "idempotency-replayed" not in first.headers
        for count in (1, 2):
            again = retried(http, count)
            assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
            assert again.json() == first.json()
        worker.render()
        assert retried(http, 1).json()["id"] == first.json()["id"]
        second = retried(http, 0).json()
        assert second["id"] != first.json()["id"]
        assert retried(http, 1).json()["id"] == second["id"]
    assert told == {"accepted": 2, "replayed": 4}
    assert site.bell.rung == ["default", "default"]
    other = retried(http, 1, {**BODY, "n": 2})
    assert (other.status_code, "idempotency-replayed" in other.headers) == (202, False)


def test_an_sdks_retry_whose_first_try_never_arrived_makes_the_job(http: httpx.Client) -> None:
    """And later ones find it."""
    job = retried(http, 1).json()
    assert retried(http, 2).json()["id"] == job["id"]


def test_without_either_header_every_submit_is_new(http: httpx.Client) -> None:
    """Nothing is guessed from the body alone."""
    assert submit(http)["id"] != submit(http)["id"]
    assert JobState.QUEUED.value == http.get("/v1/jobs").json()["data"][0]["state"]
