"""What the API's metrics tell of the store: lanes, budgets, and whether the parts answer."""

from __future__ import annotations

import re

import httpx
import pytest

from api import gauges
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape asks anew."""
    monkeypatch.setattr(gauges, "_TTL_S", 0.0)


def value(http: httpx.Client, series: str) -> float:
    """A sample of a scrape, by its name and labels as they are written."""
    [found] = re.findall(rf"^{re.escape(series)} (\S+)$", http.get("/metrics").text, re.M)
    return float(found)


def test_lanes_are_told(http: httpx.Client, worker: Driver) -> None:
    """The oldest wait, who serves it, whether it is paused; a lane of the settings without a job is there at 0."""
    for seed in range(2):
        submit(http, seed=seed)
    worker.claim()
    assert value(http, 'safelight_queue_oldest_wait_seconds{lane="default"}') > 0
    assert value(http, 'safelight_queue_oldest_wait_seconds{lane="big"}') == 0
    assert value(http, 'safelight_lane_workers{lane="default"}') == 1
    assert value(http, 'safelight_lane_workers{lane="big"}') == 0
    assert value(http, 'safelight_lane_wanted_workers{lane="default"}') == 1
    assert value(http, 'safelight_lane_wanted_workers{lane="big"}') == 1  # the least
    assert value(http, 'safelight_lane_paused{lane="big"}') == 0
    http.post("/v1/lanes/big/pause", json={"reason": "tests"}).raise_for_status()
    assert value(http, 'safelight_lane_paused{lane="big"}') == 1
    http.post("/v1/lanes/big/resume").raise_for_status()
    assert value(http, 'safelight_lane_paused{lane="big"}') == 0


def test_budgets_are_told_as_far_as_they_are_used(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fullest ones, so many of them; one that allows nothing is full, and one that is gone is told no more."""
    monkeypatch.setattr(gauges, "_MOST_BUDGETS", 2)
    ids = []
    for team, limit in (("roomy", "10"), ("none", "0"), ("other", "5")):
        quota = {"owner": {"team": team}, "kind": "spend", "limit": limit, "period": "1d"}
        ids.append(http.post("/v1/quotas", json=quota).raise_for_status().json()["id"])
    labels = 'owner_kind="team",window="1d"'
    text = http.get("/metrics").text
    assert len(re.findall(r"^safelight_budget_used_ratio\{", text, re.M)) == 2
    series = f'safelight_budget_used_ratio{{currency="USD",kind="spend",owner="none",{labels}}}'
    assert value(http, series) == 1
    for quota_id in ids:
        http.delete(f"/v1/quotas/{quota_id}").raise_for_status()
    assert "safelight_budget_used_ratio{" not in http.get("/metrics").text


def test_parts_that_fail_are_told(site: Site, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself; metrics answer all the same, and lanes keep their last numbers."""
    parts = ("store", "outputs", "broker")
    submit(http)
    assert [value(http, f'safelight_part_up{{part="{part}"}}') for part in parts] == [1, 1, 1]

    async def broken(*_arguments: object) -> None:
        raise OSError("gone")

    for part, name in ((site.services.store, "ping"), (site.services.store, "lanes"), (site.outputs, "ping")):
        monkeypatch.setattr(part, name, broken)
    site.bell.away = True
    assert [value(http, f'safelight_part_up{{part="{part}"}}') for part in parts] == [0, 0, 0]
    assert value(http, 'safelight_jobs_unfinished{lane="default",state="queued"}') == 1
