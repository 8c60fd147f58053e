"""Finding jobs over HTTP, and acting on many of them: what is counted is what is canceled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from jobstore.job import JobError
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.api.test_queue_limits import new_keys


def refused(response: httpx.Response, status: int, code: str, field: str | None = None) -> None:
    """The answer is a problem of that code, which names the field."""
    assert_problem(response, status, field)
    assert response.json()["error"]["code"] == code


def found(http: httpx.Client, *pairs: tuple[str, str], **headers: str) -> list[str]:
    """The ids of the jobs that a query names, oldest first; the count is the same."""
    listed = http.get("/v1/jobs", params=[*pairs], headers=headers).json()
    counted = http.get("/v1/jobs/count", params=[*pairs], headers=headers).json()
    assert (counted["count"], counted["at_least"]) == (len(listed["data"]), False)
    assert not listed["stopped_early"]
    return [job["id"] for job in reversed(listed["data"])]


def test_jobs_are_found_by_what_they_are(site: Site, http: httpx.Client, worker: Driver) -> None:
    """By states, dimensions, a part of the prompt in any case, an id, an error, a worker, its host, and times."""
    red = submit(http, seed=1, prompt="A Red circle", dimensions={"team": "red", "shot": "1"})["id"]
    blue = submit(http, seed=2, prompt="a blue square", dimensions={"team": "blue"})["id"]
    big = submit(http, seed=3, model="wide", prompt="100% of it", size="1024x1024")["id"]
    lease = worker.claim()
    site.call(site.services.store.fail(lease.token, JobError(code="render_failed", message="it broke")))
    assert found(http) == [red, blue, big]
    assert found(http, ("state", "failed"), ("state", "queued")) == [red, blue, big]
    assert found(http, ("state", "failed")) == found(http, ("error_code", "render_failed")) == [red]
    assert found(http, ("lane", "big")) == found(http, ("model", "wide")) == found(http, ("text", "100% OF")) == [big]
    assert found(http, ("dimension", "team:red"), ("dimension", "shot:1")) == found(http, ("text", "red C")) == [red]
    assert found(http, ("dimension", "team:red"), ("dimension", "shot:2")) == []
    assert found(http, ("text", blue)) == [blue]
    worker_id = str(worker._worker.id)
    assert found(http, ("worker", worker_id)) == found(http, ("host", worker._worker.host)) == [red]
    ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert found(http, ("created_after", ago)) == [red, blue, big]
    assert found(http, ("created_before", ago)) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=lost", "state"),
        ("dimension=team", "dimension"),
        ("dimension=TEAM:x", "dimension"),
        ("created_after=2030-01-31T12:00:00", "created_after"),
        ("created_before=yesterday", "created_before"),
        ("worker=7", "worker"),
        ("text=", "text"),
        ("text=%00", "text"),
        ("color=red", "color"),
    ],
)
def test_what_no_filter_can_be_is_refused_by_name(http: httpx.Client, query: str, field: str) -> None:
    """In the list and in the count."""
    for path in ("/v1/jobs", "/v1/jobs/count"):
        refused(http.get(f"{path}?{query}"), 400, "invalid_request", field)


def test_a_key_finds_its_own_jobs_alone(site: Site, http: httpx.Client) -> None:
    """It may not ask for another's, nor by worker; its cancel reaches none of another's, and is in no audit log."""
    own, other = new_keys(site, "own", "other")
    mine, theirs = (
        http.post("/v1/jobs", json={"prompt": "a red circle", "seed": seed}, headers=headers).json()["id"]
        for seed, headers in enumerate((own, other))
    )
    assert found(http, **own) == [mine]
    refused(http.get("/v1/jobs?host=a", headers=own), 400, "invalid_request", "host")
    refused(http.get("/v1/jobs?key=01920000-0000-7000-8000-00000000000a", headers=own), 400, "invalid_request", "key")
    done = http.post("/v1/jobs/cancel", json={"states": ["queued"]}, headers=own).json()
    assert done["job_ids"] == [mine]
    assert http.get(f"/v1/jobs/{theirs}", headers=other).json()["state"] == "queued"
    refused(http.get("/v1/workers", headers=own), 403, "forbidden")
    refused(http.get("/v1/overview", headers=own), 403, "forbidden")


def test_what_was_counted_is_what_is_canceled(site: Site, http: httpx.Client, worker: Driver) -> None:
    """A dry run changes nothing; what came later is kept out, by the time or by a 409; the audit log tells."""
    for seed in range(3):
        submit(http, seed=seed, dimensions={"team": "red"})
    kept = submit(http, seed=9, dimensions={"team": "blue"})["id"]
    worker.claim()
    where: dict[str, Any] = {"dimensions": {"team": "red"}}
    dry = http.post("/v1/jobs/cancel", json={**where, "dry_run": True}).json()
    assert (dry["dry_run"], dry["count"], dry["at_least"], dry["job_ids"]) == (True, 3, False, [])
    late = submit(http, seed=4, dimensions={"team": "red"})["id"]
    answer = http.post("/v1/jobs/cancel", json={**where, "expected": dry["count"]})
    refused(answer, 409, "count_changed", "expected")
    seen = {**where, "expected": dry["count"], "created_before": dry["as_of"]}
    first = http.post("/v1/jobs/cancel", json={**seen, "limit": 2}).json()
    assert first["count"] == 2
    rest = http.post("/v1/jobs/cancel", json={**seen, "cursor": first["next_cursor"]}).json()
    assert (rest["count"], rest["next_cursor"]) == (1, None)
    assert found(http, ("state", "queued")) == [kept, late]
    again = http.post("/v1/jobs/cancel", json=seen).json()
    assert again["count"] == 0, "the one that runs is asked to stop already"
    audit = http.get("/v1/audit", params={"action": "jobs.canceled"}).json()["data"]
    assert sorted(entry["details"]["count"] for entry in audit) == [1, 2]
    assert audit[0]["details"]["filter"]["dimensions"] == {"team": "red"}


def test_what_could_not_be_counted_is_not_confirmed(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count that stopped early confirms nothing: nothing is done, unless all are meant whatever their number."""
    for room in ("postgres", "sqlite"):
        monkeypatch.setattr(f"jobstore.{room}.finding.LOOKED_AT", 2)
    for seed in range(2):
        submit(http, seed=seed)
        lease = worker.claim()
        site.call(site.services.store.fail(lease.token, JobError(code="render_failed", message="it broke")))
    for seed in range(4):
        submit(http, seed=seed)
    where: dict[str, Any] = {"states": ["queued"]}
    dry = http.post("/v1/jobs/cancel", json={**where, "dry_run": True}).json()
    assert (dry["count"], dry["at_least"]) == (2, True)
    for expected in (dry["count"], 10_000):
        answer = http.post("/v1/jobs/cancel", json={**where, "expected": expected})
        refused(answer, 409, "count_too_far", "expected")
    first = http.post("/v1/jobs/cancel", json={**where, "expected": 0, "all": True}).json()
    rest = http.post("/v1/jobs/cancel", json={**where, "all": True, "cursor": first["next_cursor"]}).json()
    assert first["count"] + rest["count"] == 4
    count = site.services.store.count_letters
    monkeypatch.setattr(type(site.services.store), "count_letters", lambda _store, where: count(where, most=1))
    refused(http.post("/v1/jobs/redrive", json={"expected": 1}), 409, "count_too_far", "expected")
    assert http.post("/v1/jobs/redrive", json={"expected": 1, "all": True}).json()["count"] == 2


def test_a_cancel_must_name_something(http: httpx.Client) -> None:
    """An empty filter would be all jobs; a finished state can't be canceled."""
    refused(http.post("/v1/jobs/cancel", json={}), 400, "invalid_request", "states")
    refused(http.post("/v1/jobs/cancel", json={"dry_run": True}), 400, "invalid_request", "states")
    refused(http.post("/v1/jobs/cancel", json={"states": ["dead"]}), 400, "invalid_request", "states")
    done = http.post("/v1/jobs/cancel", json={"states": ["queued"], "cursor": "made-up"})
    refused(done, 400, "invalid_request", "cursor")


def test_a_redrive_is_counted_first(site: Site, http: httpx.Client, worker: Driver) -> None:
    """The same dry run and the same 409."""
    for seed in range(2):
        submit(http, seed=seed)
        lease = worker.claim()
        site.call(site.services.store.fail(lease.token, JobError(code="render_failed", message="it broke")))
    dry = http.post("/v1/jobs/redrive", json={"dry_run": True}).json()
    assert (dry["dry_run"], dry["count"], dry["at_least"], dry["job_ids"]) == (True, 2, False, [])
    refused(http.post("/v1/jobs/redrive", json={"expected": 1}), 409, "count_changed", "expected")
    first = http.post("/v1/jobs/redrive", json={"expected": 2, "limit": 1}).json()
    assert (first["count"], first["more"]) == (1, True)
    rest = http.post("/v1/jobs/redrive", json={"expected": 2, "cursor": first["next_cursor"]}).json()
    assert (rest["count"], rest["more"], rest["next_cursor"]) == (1, False, None)
    refused(http.post("/v1/jobs/redrive", json={"cursor": "made-up"}), 400, "invalid_request", "cursor")
    audit = http.get("/v1/audit", params={"action": "jobs.redriven"}).json()["data"]
    assert [entry["details"]["count"] for entry in audit] == [1, 1]


def test_a_redrive_goes_by_what_a_cancel_goes_by(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Dimensions, a part of the prompt, the worker that had it, its host, the key; each by name in the audit log."""
    job = submit(http, prompt="a Red circle", dimensions={"team": "red"})["id"]
    lease = worker.claim()
    site.call(site.services.store.fail(lease.token, JobError(code="render_failed", message="it broke")))
    had = worker._worker
    ended = http.get(f"/v1/jobs/{job}").json()["finished_at"]
    assert found(http, ("finished_after", "2020-01-01T00:00:00Z"), ("finished_before", "2999-01-01T00:00:00Z")) == [job]
    assert found(http, ("finished_after", ended)) == []
    for where, count in (
        ({"dimensions": {"team": "blue"}}, 0), ({"text": "square"}, 0), ({"host": "elsewhere"}, 0),
        ({"key": str(had.id)}, 0), ({"created_after": ended}, 0), ({"created_before": ended, "text": job}, 1),
        ({"dimensions": {"team": "red"}, "text": "red C", "worker": str(had.id), "host": had.host}, 1),
    ):  # fmt: skip
        dry = http.post("/v1/jobs/redrive", json={**where, "dry_run": True})
        assert (dry.status_code, dry.json().get("count")) == (200, count), (where, dry.text)
    assert http.post("/v1/jobs/redrive", json={"dimensions": {"team": "red"}, "text": "RED"}).json()["job_ids"] == [job]
    [entry] = http.get("/v1/audit", params={"action": "jobs.redriven"}).json()["data"]
    assert entry["details"]["filter"]["dimensions"] == {"team": "red"}
    refused(http.post("/v1/jobs/redrive", json={"text": "a\0b"}), 400, "invalid_request", "text")
    for path in ("/v1/jobs/cancel", "/v1/jobs/redrive"):
        dimensions = {"dimensions": {"shot": "\0"}}
        refused(http.post(path, json=dimensions), 400, "invalid_request", "dimensions.shot")
