"""Answers that come later: by ``Prefer``, by Bifrost's headers and paths, and when the server's own limit is over."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from jobstore.outputs import Outputs
from tests.api.openai.painter import Painter, until
from tests.api.site import SETTINGS, Driver, Site, with_server

PATH = "/v1/images/generations"
LATER = "/v1/async/images/generations"
BODY = {"prompt": "a red circle", "cache": "off"}


@pytest.fixture
def impatient(database: str, outputs: Outputs) -> Iterator[Site]:
    """An API that waits a fifth of a second, and nobody paints."""
    with Site(database, outputs, with_server(SETTINGS, sync_wait_s=0.2)).serve() as site:
        httpx.get(f"{site.url}/livez", timeout=20).raise_for_status()
        yield site


@pytest.fixture
def hasty(impatient: Site) -> Iterator[httpx.Client]:
    """Its client."""
    with httpx.Client(base_url=impatient.url, timeout=20) as client:
        yield client


def test_an_answer_that_takes_too_long_becomes_a_promise(hasty: httpx.Client, impatient: Site) -> None:
    """202 with where to ask and when; the job goes on and can be polled."""
    response = hasty.post(PATH, json=BODY)
    assert response.status_code == 202
    promise = response.json()
    assert response.headers["location"] == f"/v1/jobs/{promise['id']}"
    assert int(response.headers["retry-after"]) >= 1
    assert int(response.headers["openai-poll-after-ms"]) >= 1000
    assert (promise["status"], promise["data"]) == ("pending", [])
    polling = {"x-bf-async-id": promise["id"]}
    assert hasty.get(PATH, headers=polling).status_code == 202
    Driver(impatient).render()
    done = hasty.get(PATH, headers=polling)
    assert (done.status_code, done.json()["safelight"]["job_id"]) == (200, promise["id"])


def test_respond_async_answers_at_once_and_wait_bounds_it(hasty: httpx.Client) -> None:
    """RFC 7240, on both routes."""
    for path, body in ((PATH, BODY), ("/v1/jobs", BODY)):
        at_once = hasty.post(path, json=body, headers={"Prefer": "respond-async"})
        assert (at_once.status_code, at_once.headers["preference-applied"]) == (202, "respond-async")
        bounded = hasty.post(path, json=body, headers={"Prefer": "foo, wait=0; bar, respond-async"})
        assert (bounded.status_code, bounded.headers["preference-applied"]) == (202, "respond-async, wait=0")
        cut = hasty.post(path, json=body, headers={"Prefer": "wait=600"})
        assert (cut.status_code, cut.headers["preference-applied"]) == (202, "wait=0.2")


def test_a_submit_waits_as_long_as_it_is_asked_to(client: httpx.Client) -> None:
    """200 and the job at its end; without a preference 202 as ever."""
    done = client.post("/v1/jobs", json=BODY, headers={"Prefer": "wait=15"})
    assert (done.status_code, done.json()["state"]) == (200, "succeeded")
    assert done.headers["preference-applied"] == "wait=15"
    assert client.post("/v1/jobs", json=BODY).status_code == 202
    failed = client.post("/v1/jobs", json={"prompt": "fail"}, headers={"Prefer": "wait=15"})
    assert (failed.status_code, failed.json()["state"]) == (200, "failed")


@pytest.mark.parametrize("value", ["true", "1", "TRUE"])
def test_bifrosts_header_makes_a_job_that_is_polled_by_its_header(client: httpx.Client, value: str) -> None:
    """By GET and by POST, in the ordinary form once it is there."""
    response = client.post(PATH, json={**BODY, "output_format": "webp"}, headers={"x-bf-async": value})
    assert response.status_code == 202
    job_id = response.json()["id"]
    assert response.headers["x-bf-async-id"] == job_id
    polling = {"x-bf-async-id": job_id}
    until(lambda: client.get(PATH, headers=polling).status_code == 200)
    for answer in (client.get(PATH, headers=polling), client.post(PATH, headers=polling, json={})):
        assert answer.json()["output_format"] == "webp"
        assert len(answer.json()["data"]) == 1
    assert client.post(PATH, headers=polling).status_code == 200


@pytest.mark.parametrize("value", ["false", "0", ""])
def test_bifrosts_header_may_say_no(client: httpx.Client, value: str) -> None:
    """Then the answer waits for its pictures."""
    assert client.post(PATH, json=BODY, headers={"x-bf-async": value}).status_code == 200


def test_a_polled_job_that_failed_answers_with_its_own_error(client: httpx.Client) -> None:
    """And with the status of it."""
    job_id = client.post(PATH, json={"prompt": "fail"}, headers={"x-bf-async": "true"}).json()["id"]
    polling = {"x-bf-async-id": job_id}
    until(lambda: client.get(PATH, headers=polling).status_code != 202)
    failed = client.get(PATH, headers=polling)
    assert (failed.status_code, failed.json()["error"]["code"]) == (500, "bad_output")
    assert failed.headers["x-should-retry"] == "false"


def test_bifrosts_paths(client: httpx.Client) -> None:
    """202 until the end, then 200 with the result, or with the error and its status."""
    submitted = client.post(LATER, json=BODY, headers={"x-bf-async-job-result-ttl": "60"})
    assert submitted.status_code == 202
    assert submitted.json()["status"] == "pending"
    assert set(submitted.json()) == {"id", "status", "created_at"}
    assert submitted.json()["created_at"] == client.get(f"/v1/jobs/{submitted.json()['id']}").json()["created_at"]
    path = f"{LATER}/{submitted.json()['id']}"
    done = until(lambda: (answer := client.get(path)).status_code == 200 and answer.json())
    assert (done["status"], done["status_code"], len(done["result"]["data"])) == ("completed", 200, 1)
    assert done["completed_at"] < done["expires_at"]
    failing = client.post(LATER, json={"prompt": "fail"}).json()["id"]
    failed = until(lambda: (answer := client.get(f"{LATER}/{failing}")).status_code == 200 and answer.json())
    assert (failed["status"], failed["status_code"]) == ("failed", 500)
    assert set(failed["error"]) == {"message", "type", "param", "code"}
    assert client.post(LATER, json={**BODY, "stream": True}).json()["error"]["param"] == "stream"


def test_missing_expired_and_plain_jobs_are_one_404(client: httpx.Client) -> None:
    """Nothing tells them apart."""
    expired = client.post(LATER, json=BODY, headers={"x-bf-async-job-result-ttl": "1"}).json()["id"]
    until(lambda: client.get(f"{LATER}/{expired}").status_code == 200)
    until(lambda: client.get(f"{LATER}/{expired}").status_code == 404)
    plain = client.post("/v1/jobs", json=BODY).json()["id"]
    missing = "01920000-0000-7000-8000-000000000000"
    answers = [client.get(f"{LATER}/{job_id}") for job_id in (expired, plain, missing, "nonsense")]
    answers += [client.get(PATH, headers={"x-bf-async-id": job_id}) for job_id in (expired, plain, missing, "nonsense")]
    assert {(answer.status_code, str(answer.json()["error"])) for answer in answers} == {
        (404, str(answers[0].json()["error"]))
    }


@pytest.mark.parametrize("ttl", ["0", "-1", "soon", "99999999"])
def test_a_time_to_live_that_is_none_is_refused(client: httpx.Client, ttl: str) -> None:
    """With the header's name."""
    response = client.post(LATER, json=BODY, headers={"x-bf-async-job-result-ttl": ttl})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "x-bf-async-job-result-ttl")


def test_a_client_that_hangs_up_leaves_its_job_unless_it_said_otherwise(
    client: httpx.Client, studio: Site, painter: Painter
) -> None:
    """The job goes on; with the header, or the field, it is canceled."""

    def hang_up(headers: dict[str, str], **fields: Any) -> str:
        with pytest.raises(httpx.ReadTimeout):
            client.post(PATH, json={**BODY, **fields}, headers=headers, timeout=0.5)
        return str(client.get("/v1/jobs", params={"limit": 1}).json()["data"][0]["id"])

    def state(job_id: str) -> str:
        return str(client.get(f"/v1/jobs/{job_id}").json()["state"])

    with painter.resting():
        left = hang_up({})
        by_header = hang_up({"x-safelight-cancel-on-disconnect": "true"})
        until(lambda: state(by_header) == "canceled")
        by_field = hang_up({}, cancel_on_disconnect=True)
        until(lambda: state(by_field) == "canceled")
    until(lambda: state(left) == "succeeded")
    assert until(lambda: studio.services.tail.listeners == 0) is True


def hangs_up(client: httpx.Client, key: str, after_s: float = 0.5) -> None:
    """A client that sends a request and hangs up before it is answered."""
    headers = {"Idempotency-Key": key, "x-safelight-cancel-on-disconnect": "true"}
    with pytest.raises(httpx.ReadTimeout):
        client.post(PATH, json={**BODY, "prompt": key}, headers=headers, timeout=after_s)


def latest(client: httpx.Client) -> tuple[str, str]:
    """The newest job's id and state."""
    job = client.get("/v1/jobs", params={"limit": 1}).json()["data"][0]
    return job["id"], job["state"]


def test_who_hangs_up_cancels_no_job_that_others_wait_for(client: httpx.Client, studio: Site, painter: Painter) -> None:
    """Neither one that another request made, nor its own while somebody else waits for it."""
    with painter.resting(), ThreadPoolExecutor(3) as pool:
        sending: dict[str, Any] = {"json": {**BODY, "prompt": "shared"}, "headers": {"Idempotency-Key": "shared"}}
        first = pool.submit(client.post, PATH, **sending)
        until(lambda: studio.services.tail.listeners == 1)
        hangs_up(client, "shared")
        until(lambda: studio.services.tail.listeners == 1)
        own = pool.submit(hangs_up, client, "own", 1.5)
        until(lambda: studio.services.tail.listeners == 2)
        other = pool.submit(client.post, PATH, json={**BODY, "prompt": "own"}, headers={"Idempotency-Key": "own"})
        until(lambda: studio.services.tail.listeners == 3)
        own.result()
        until(lambda: studio.services.tail.listeners == 2)
        painter.resume()
        assert (first.result().status_code, other.result().status_code) == (200, 200)


def test_a_repeat_of_what_hanging_up_canceled_makes_it_anew(
    client: httpx.Client, studio: Site, painter: Painter
) -> None:
    """Under the same key, where the repeat says the same; without the wish it is told what became of the job."""
    with painter.resting():
        hangs_up(client, "again")
        until(lambda: latest(client)[1] == "canceled")
    canceled, _ = latest(client)
    sending: dict[str, Any] = {"json": {**BODY, "prompt": "again"}, "headers": {"Idempotency-Key": "again"}}
    assert client.post(PATH, **sending).json()["error"]["code"] == "job_canceled"
    sending["headers"]["x-safelight-cancel-on-disconnect"] = "true"
    anew = client.post(PATH, **sending)
    assert (anew.status_code, anew.headers.get("idempotency-replayed")) == (200, None)
    assert anew.headers["x-safelight-job-id"] != canceled
    known = client.post(PATH, **sending)
    assert known.headers["x-safelight-job-id"] == anew.headers["x-safelight-job-id"]
    assert known.headers["idempotency-replayed"] == "true"


def test_a_repeat_waits_for_no_render_that_is_being_canceled(
    client: httpx.Client, studio: Site, painter: Painter
) -> None:
    """A running one ends at its next step; the repeat has its own by then."""
    with painter.resting():
        sending: dict[str, Any] = {
            "json": {**BODY, "prompt": "run"},
            "headers": {"Idempotency-Key": "run", "Prefer": "wait=0"},
        }
        running = client.post(PATH, **sending).json()["id"]
        lease = Driver(studio).claim()
        client.post(f"/v1/jobs/{running}/cancel").raise_for_status()
    sending["headers"] = {"Idempotency-Key": "run", "x-safelight-cancel-on-disconnect": "1"}
    assert client.post(PATH, **sending).headers["x-safelight-job-id"] != running
    studio.call(studio.services.store.canceled(lease.token))
