"""What autoscalers ask over HTTP."""

from __future__ import annotations

import httpx

from jobstore.protocol import Pace
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem


def test_a_lane_tells_how_many_workers_it_should_have(site: Site, http: httpx.Client, worker: Driver) -> None:
    """One lane as KEDA's metrics-api scaler reads it, and all of them."""
    pace = Pace(model="scenes", width=128, height=128, device="cpu", step_s=10.0)
    site.call(site.services.store.beat(worker._worker, [pace]))
    for seed in range(3):
        submit(http, seed=seed)
    worker.claim()
    lanes = {lane["lane"]: lane for lane in http.get("/v1/scaling").json()["data"]}
    assert lanes.keys() == {"big", "default"}
    busy = lanes["default"]
    assert (busy["workers"], busy["queued"], busy["running"]) == (1, 2, 1)
    assert (busy["arriving"], busy["waiting_s"], busy["drain_s"]) == (2.0, 160.0, 160.0)
    assert busy["wanted"] == 5  # 2.0 / 0.9 keep up, and 160 s of work start within 60 s
    idle = http.get("/v1/scaling/big").json()
    assert idle == {
        "lane": "big", "wanted": 1, "workers": 0, "arriving": 0.0, "queued": 0, "running": 0, "waiting_s": 0.0,
        "oldest_s": 0.0, "drain_s": None, "paused": False,
    }  # fmt: skip
    http.post("/v1/lanes/default/pause", json={"reason": "tests"}).raise_for_status()
    paused = http.get("/v1/scaling/default").json()
    assert (paused["wanted"], paused["paused"]) == (1, True), "what runs"


def test_a_lane_that_is_not_there_is_a_404(http: httpx.Client) -> None:
    """And names those there are."""
    assert_problem(http.get("/v1/scaling/none"), 404, "lane")
