"""Lanes over HTTP: how they stand, pause and resume; dead letters redriven; the place in the queue with its time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from jobstore.job import JobError
from jobstore.keys import hash_secret
from jobstore.protocol import Pace
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.api.test_queue_limits import new_keys
from tests.contract.keying import make_key

PACE = Pace(model="scenes", width=128, height=128, device="cpu", step_s=0.5)


def lanes(http: httpx.Client) -> dict[str, dict[str, Any]]:
    """All lanes by name."""
    found = http.get("/v1/lanes").json()
    assert found["object"] == "list"
    return {lane["name"]: lane for lane in found["data"]}


def test_lanes_are_listed_with_what_waits_in_them(
    site: Site, http: httpx.Client, worker: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the settings are there before their first job. They are counted once a second, and after a pause."""
    clock = [time.monotonic() + 10]
    monkeypatch.setattr(site.services.counted, "_clock", lambda: clock[0])
    nothing = {"scheduled": 0, "queued": 0, "running": 0, "oldest_s": 0.0, "waiting_s": 0.0, "devices": 0}
    still = {"object": "lane", "paused": False, "paused_at": None, "reason": "", "drain_s": None, **nothing}
    assert lanes(http) == {name: {"name": name, **still} for name in ("big", "default")}
    for seed in range(3):
        submit(http, seed=seed)
    assert lanes(http)["default"]["queued"] == 0, "it was counted a moment ago"
    submit(http, start_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    worker.claim()
    clock[0] += 1.1
    lane = lanes(http)["default"]
    assert [lane[name] for name in ("scheduled", "queued", "running", "devices")] == [1, 2, 1, 1]
    assert lane["drain_s"] == lane["waiting_s"]
    for action, paused in (("pause", True), ("resume", False)):
        http.post(f"/v1/lanes/default/{action}", json={}).raise_for_status()
        assert lanes(http)["default"]["paused"] is paused


def test_a_paused_lane_takes_jobs_and_starts_none(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Its jobs say so; what runs goes on; resumed, each that waits gets a bell, and all complete in order."""
    running = submit(http, seed=0)
    lease = worker.claim()
    paused = http.post("/v1/lanes/default/pause", json={"reason": "new weights"})
    assert paused.status_code == 200
    lane = paused.json()
    assert (lane["paused"], lane["reason"], lane["running"]) == (True, "new weights", 1)
    assert lane["paused_at"] is not None
    waiting = [submit(http, seed=seed) for seed in range(1, 4)]
    assert {job["state"] for job in waiting} == {"queued"}
    assert {job["queue"]["paused"] for job in waiting} == {True}
    assert http.get(f"/v1/jobs/{waiting[0]['id']}").json()["queue"]["paused"]
    assert "the lane default is paused: its jobs wait" in http.get("/healthz").json()["warnings"]
    assert not http.get(f"/v1/jobs/{running['id']}").json()["queue"]["paused"]
    worker.finish(lease)
    assert site.call(site.services.store.claim(worker._worker, ["default"])) is None
    site.bell.rung.clear()
    for _ in range(2):
        resumed = http.post("/v1/lanes/default/resume").json()
        assert (resumed["paused"], resumed["paused_at"], resumed["reason"]) == (False, None, "")
    assert site.bell.rung == ["default"] * 3
    assert not http.get(f"/v1/jobs/{waiting[0]['id']}").json()["queue"]["paused"]
    assert [str(worker.render().job.id) for _ in waiting] == [job["id"] for job in waiting]


def test_a_reason_can_be_left_out_and_is_bounded(http: httpx.Client) -> None:
    """500 characters, no U+0000, no other field."""
    assert http.post("/v1/lanes/big/pause", json={}).json()["reason"] == ""
    assert http.post("/v1/lanes/big/pause", json={"reason": "x" * 500}).json()["reason"] == "x" * 500
    for wrong in ({"reason": "x" * 501}, {"reason": "\0"}, {"reason": 5}):
        assert_problem(http.post("/v1/lanes/big/pause", json=wrong), 400, "reason")
    assert_problem(http.post("/v1/lanes/big/pause", json={"why": "x"}), 400, "why")


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_an_unknown_lane_is_a_404_that_names_the_others(http: httpx.Client, action: str) -> None:
    """Nothing is made of it."""
    for lane in ("large", "%00", "Big"):
        response = http.post(f"/v1/lanes/{lane}/{action}", json={})
        assert_problem(response, 404, "lane")
        assert response.json()["error"]["code"] == "lane_not_found"
        assert "big, default" in response.json()["detail"]
    assert set(lanes(http)) == {"big", "default"}


def test_lanes_and_dead_letters_are_for_admins(site: Site, http: httpx.Client) -> None:
    """On loopback too, once there are keys."""
    ann, admin = new_keys(site, "ann", "admin")
    for method, path in (
        ("GET", "/v1/lanes"),
        ("POST", "/v1/lanes/default/pause"),
        ("POST", "/v1/lanes/default/resume"),
        ("POST", "/v1/jobs/redrive"),
    ):
        body: dict[str, Any] = {} if method == "GET" else {"json": {}}
        assert_problem(http.request(method, path, **body), 401)
        assert_problem(http.request(method, path, headers=ann, **body), 403)
        assert http.request(method, path, headers=admin, **body).status_code == 200


def fail(site: Site, worker: Driver, code: str) -> str:
    """The next job ends with that error."""
    lease = worker.claim()
    site.call(site.services.store.fail(lease.token, JobError(code=code, message="it broke")))
    return str(lease.job.id)


def test_dead_letters_are_redriven_by_what_they_have_in_common(site: Site, http: httpx.Client, worker: Driver) -> None:
    """A bell each; what the filter doesn't name stays."""
    for seed in range(4):
        submit(http, seed=seed)
    black = [fail(site, worker, "bad_output") for _ in range(2)]
    broken = [fail(site, worker, "render_failed") for _ in range(2)]
    site.bell.rung.clear()
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    nobody: list[dict[str, Any]] = [
        {"states": ["dead"]}, {"lane": "big"}, {"model": "wide"}, {"error_code": "worker_lost"},
        {"finished_after": soon}, {"finished_before": "2001-01-01T00:00:00Z"}, {"model": "gone"}, {"lane": "gone"},
    ]  # fmt: skip
    for where in nobody:
        redriven = http.post("/v1/jobs/redrive", json=where).json()
        assert (redriven["count"], redriven["job_ids"], redriven["more"]) == (0, [], False)
    one = http.post("/v1/jobs/redrive", json={"error_code": "bad_output", "limit": 1, "model": "shapes"}).json()
    assert (one["count"], one["job_ids"], one["more"]) == (1, black[:1], True)
    rest = http.post("/v1/jobs/redrive", json={"finished_before": soon, "lane": "default"}).json()
    assert (rest["count"], set(rest["job_ids"])) == (3, {*black[1:], *broken})
    assert site.bell.rung == ["default"] * 4
    assert {job["state"] for job in http.get("/v1/jobs").json()["data"]} == {"queued"}


def test_a_filter_that_is_wrong_redrives_nothing(site: Site, http: httpx.Client, worker: Driver) -> None:
    """It names the field."""
    submit(http)
    fail(site, worker, "bad_output")
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("states", {"states": ["canceled"]}), ("states", {"states": []}), ("lane", {"lane": "Not A Lane"}),
        ("error_code", {"error_code": "%"}), ("finished_after", {"finished_after": "yesterday"}),
        ("finished_before", {"finished_before": "2031-01-01T00:00:00"}), ("limit", {"limit": 0}),
        ("limit", {"limit": 1001}), ("model", {"model": "\0"}), ("state", {"state": "dead"}),
    ]  # fmt: skip
    for field, body in wrong:
        assert_problem(http.post("/v1/jobs/redrive", json=body), 400, field)
    assert http.get("/v1/jobs").json()["data"][0]["state"] == "failed"


def test_a_place_in_the_queue_has_a_time(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Null while no worker serves the lane; else what stands before the job takes, to a tenth of a second."""
    assert submit(http, seed=0)["queue"] == {"position": 1, "eta_s": None, "paused": False}
    worker.claim()
    site.call(site.services.store.beat(worker._worker, [PACE]))
    jobs = [submit(http, seed=seed) for seed in (1, 2, 3)]
    assert [job["queue"]["position"] for job in jobs] == [1, 2, 3]
    etas = [job["queue"]["eta_s"] for job in jobs]
    assert etas == sorted(etas)
    assert etas[2] - etas[1] == pytest.approx(8 * PACE.step_s, abs=0.11)  # of 8 steps
    assert all(eta == round(eta, 1) for eta in etas)
    assert http.get("/v1/jobs").json()["data"][0]["queue"] == {"position": None, "eta_s": None, "paused": False}


def test_a_key_brings_its_weight(site: Site, http: httpx.Client) -> None:
    """What the store shares a lane by."""
    from api.resolve import resolve
    from api.schemas import SubmitRequest

    store = site.services.store
    secret = site.call(make_key(store, "ann", weight=2.5))
    found = site.call(store.find_key(hash_secret(secret)))
    assert found is not None
    key = found.key
    new = resolve(SubmitRequest(prompt="x"), {}, key, site.settings)
    assert (new.weight, new.key_id) == (2.5, key.id)
    assert resolve(SubmitRequest(prompt="x"), {}, None, site.settings).weight == 1.0


def test_a_start_deadline_is_told_back(http: httpx.Client) -> None:
    """Beside the deadline for the whole; left out, there is none."""
    request = submit(http, start_deadline_s=30, deadline_s=60)["request"]
    assert (request["start_deadline_s"], request["deadline_s"]) == (30, 60)
    assert submit(http)["request"]["start_deadline_s"] is None
