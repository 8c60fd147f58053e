"""Probes, metrics, and what an API process never loads."""

from __future__ import annotations

import subprocess
import sys

import httpx
import psycopg

from tests.api.site import Driver, Site
from tests.api.test_jobs import submit


def test_probes_tell_what_fails(site: Site, http: httpx.Client) -> None:
    """Ready while the parts answer; 503 names the one that does not; alive all the same."""
    assert http.get("/livez").json() == {"status": "ok"}
    assert http.get("/readyz").json()["status"] == "ok"

    async def broken(size_bytes: int = 9) -> None:
        raise OSError("/secret/path is gone")

    site.outputs.ping = broken  # type: ignore[method-assign]  # the part that fails
    response = http.get("/readyz")
    assert response.status_code == 503
    assert response.json()["detail"].startswith("outputs:")
    assert "secret" not in response.text
    health = http.get("/healthz")
    assert health.status_code == 200
    assert [(part["name"], part["ok"]) for part in health.json()["parts"]] == [("store", True), ("outputs", False)]
    assert http.get("/livez").status_code == 200


def test_a_schema_that_is_too_new_is_told(database: str, http: httpx.Client) -> None:
    """The probe says what to do; one that leaves room for this program changes nothing."""
    row = "INSERT INTO schema_migration (version, name, checksum, needs) VALUES (9999, '9999_next', 'x', 1)"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(row)
        try:
            assert http.get("/readyz").status_code == 200
            connection.execute("UPDATE schema_migration SET needs = 9999 WHERE version = 9999")
            response = http.get("/readyz")
        finally:
            connection.execute("DELETE FROM schema_migration WHERE version = 9999")
    assert response.status_code == 503
    assert "it has 9999_next" in response.json()["detail"]
    assert "install a newer Safelight" in response.json()["detail"]


def test_health_shows_workers_and_backlog(http: httpx.Client, worker: Driver) -> None:
    """Without a worker it says that jobs wait; with one, which lanes nobody serves."""
    for seed in range(2):
        submit(http, seed=seed)
    health = http.get("/healthz").json()
    assert (health["status"], health["workers"]) == ("ok", [])
    assert health["warnings"] == ["no worker is alive: jobs wait"]
    worker.claim()
    health = http.get("/healthz").json()
    assert health["workers"] == [{"host": "test", "device": "cpu", "lanes": ["default"]}]
    assert {lane.pop("lane"): lane for lane in health["backlog"]} == {
        "default": {"scheduled": 0, "queued": 1, "running": 1},
        "big": {"scheduled": 0, "queued": 0, "running": 0},
    }
    assert health["warnings"] == ["no live worker serves the lane big: its jobs wait"]


def test_metrics_count_the_backlog_with_bounded_labels(http: httpx.Client, worker: Driver) -> None:
    """Waiting and running by lane; routes are templates, unknown ones are one."""
    for seed in range(3):
        submit(http, seed=seed)
    worker.claim()
    for path in ("/nope", "/nope2", "/v1/jobs/nope"):
        http.get(path)
    text = http.get("/metrics").text
    assert 'safelight_jobs_unfinished{lane="default",state="queued"} 2.0' in text
    assert 'safelight_jobs_unfinished{lane="default",state="running"} 1.0' in text
    assert 'safelight_jobs_unfinished{lane="big",state="queued"} 0.0' in text
    assert "nope" not in text
    assert 'route="/v1/jobs/{job_id}"' in text


def test_the_api_loads_no_torch() -> None:
    """A host of the API needs none of it."""
    code = "import sys, api.app; print({'torch', 'diffusers', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_pages_load_nothing_from_elsewhere(http: httpx.Client) -> None:
    """Every address in them is our own, and the policy says so to the browser."""
    for path in ("/", "/docs", "/static/docs.js", "/static/style.css", "/static/icon.svg"):
        response = http.get(path)
        assert response.status_code == 200
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "unsafe" not in response.headers["content-security-policy"]
        assert "https://" not in response.text


def test_a_broker_that_is_away_is_a_warning(site: Site, http: httpx.Client) -> None:
    """The service goes on without it, so it is ready all the same."""
    site.bell.away = True
    assert any("broker" in warning for warning in http.get("/healthz").json()["warnings"])
    assert http.get("/readyz").status_code == 200
