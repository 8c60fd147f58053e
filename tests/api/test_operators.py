"""Workers and the overview over HTTP: who drains, how everything stands, and what is wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from api.operating.problems import Standing, problems_of
from api.operating.recent import Recent
from jobstore.ids import uuid7
from jobstore.operating.figures import Figures
from jobstore.operating.workers import WorkerReport, WorkerStatus
from jobstore.protocol import Lane
from jobstore.quotas import QuotaStatus
from tests.api.site import Driver, Site
from tests.api.test_jobs import submit
from tests.api.test_problems import assert_problem
from tests.contract.making import new_quota

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
QUIET = Figures(at=NOW, minutes=(), hits=0, joined=0, rendered=0, failed=0, dead=0, letter_at=None, since=NOW, costs=())
WORKER = WorkerStatus(
    id=uuid7(), host="h", pid=1, device="cpu", lanes=("default",), state="serving", alive=True, held=0,
    started_at=NOW, seen_at=NOW, silent_s=0.0,
)  # fmt: skip
BUSY = Lane(name="default", queued=2, oldest_s=5.0)


def test_a_worker_is_listed_drained_and_resumed(site: Site, http: httpx.Client, worker: Driver) -> None:
    """With what its beat told; one that is not there is a 404; both acts are in the audit log."""
    report = WorkerReport(version="1.0", slots=4, memory_used=1, memory_total=2, models=("scenes",), occupancy=0.5)
    site.call(site.services.store.beat(worker._worker, (), report))
    [listed] = http.get("/v1/workers").json()["data"]
    told = {name: listed[name] for name in ("state", "slots", "memory_used", "models", "occupancy", "held")}
    assert told == {
        "state": "serving", "slots": 4, "memory_used": 1, "models": ["scenes"], "occupancy": 0.5, "held": 0,
    }  # fmt: skip
    path = f"/v1/workers/{listed['id']}"
    assert http.post(f"{path}/drain").json()["state"] == "drained"
    submit(http)
    assert site.call(site.services.store.claim(worker._worker, ["default"])) is None
    assert http.get(path).json()["drain_asked_at"] is not None
    assert http.post(f"{path}/resume").json()["state"] == "serving"
    worker.claim()
    assert http.get(path).json()["held"] == 1
    for answer in (http.get("/v1/workers/7"), http.post(f"/v1/workers/{uuid7()}/drain")):
        assert_problem(answer, 404, "id")
    actions = [entry["action"] for entry in http.get("/v1/audit").json()["data"]]
    assert actions == ["worker.resumed", "worker.drained"]


def test_the_attempts_of_a_job_are_told(http: httpx.Client, worker: Driver) -> None:
    """One that succeeded, with what it took."""
    job = submit(http)
    worker.render()
    [attempt] = http.get(f"/v1/jobs/{job['id']}/attempts").json()["data"]
    told = {name: attempt[name] for name in ("number", "outcome", "device", "host", "gpu_seconds", "batch_rows")}
    assert told == {
        "number": 1, "outcome": "succeeded", "device": "cpu", "host": "test", "gpu_seconds": "0.5", "batch_rows": None,
    }  # fmt: skip
    assert attempt["duration_s"] >= 0


def test_the_overview_tells_how_everything_stands(http: httpx.Client, worker: Driver) -> None:
    """A render, a job that waits, and today's cost; a zone that is none is refused."""
    submit(http, seed=1)
    worker.render()
    submit(http, seed=2)
    submit(http, model="wide", size="1024x1024")
    found = http.get("/v1/overview?zone=Europe/Berlin").json()
    assert (found["queued"], found["running"], found["hour"]["succeeded"]) == (2, 0, 1)
    assert (found["hour"]["success_rate"], len(found["hour"]["minutes"])) == (1.0, 60)
    assert found["oldest_s"] >= 0
    assert [cost["charged"] for cost in found["today"]["costs"]] == ["0.01"]
    [problem] = found["problems"]
    assert (problem["code"], problem["severity"], problem["link"]) == ("no_worker", "critical", "/admin/workers")
    assert "big" in problem["what"]
    assert_problem(http.get("/v1/overview?zone=Mars"), 400, "zone")


@pytest.mark.parametrize(
    ("standing", "code"),
    [
        ({"broker_away": True}, "broker_away"),
        ({"workers": [replace(WORKER, state="silent", alive=False, held=2)]}, "worker_silent"),
        ({"lanes": [BUSY]}, "no_worker"),
        ({"lanes": [replace(BUSY, paused_at=NOW)]}, "lane_paused"),
        ({"lanes": [replace(BUSY, oldest_s=700.0)], "workers": [WORKER]}, "queue_old"),
        ({"figures": replace(QUIET, dead=1, letter_at=NOW - timedelta(minutes=1))}, "dead_letters"),
        ({"workers": [replace(WORKER, state="draining", held=1)]}, "worker_draining"),
    ],
)
def test_each_problem_is_told_with_what_to_do(standing: dict[str, Any], code: str) -> None:
    """By a code that stays."""
    quiet: dict[str, Any] = {"figures": QUIET, "lanes": [], "workers": []}
    [problem] = problems_of(Standing(**(quiet | standing)))
    assert problem.code == code
    assert problem.advice


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        ({"lanes": [replace(BUSY, queued=1)]}, "and 1 job waits"),
        ({"lanes": [replace(BUSY, queued=2, paused_at=NOW)]}, "and 2 jobs wait"),
        ({"workers": [replace(WORKER, state="drained")]}, "stop it now"),
        ({"workers": [replace(WORKER, state="draining", held=1)]}, "stop it once it is drained"),
    ],
)
def test_problems_are_told_in_the_right_number_and_time(standing: dict[str, Any], words: str) -> None:
    """One job waits, two wait; what is drained already needs no waiting."""
    quiet: dict[str, Any] = {"figures": QUIET, "lanes": [], "workers": []}
    [problem] = problems_of(Standing(**(quiet | standing)))
    assert words in f"{problem.what}: {problem.advice}"


@pytest.mark.parametrize(("used", "codes"), [("0.89", []), ("0.9", ["budget_nearly_used"]), ("1", ["budget_used"])])
def test_a_budget_is_a_problem_before_it_is_used_up(used: str, codes: list[str]) -> None:
    """From 90% on."""
    status = QuotaStatus(
        quota=new_quota(period="total", rolling=False), held=Decimal(0), used=Decimal(used), ends_at=None
    )
    found = problems_of(Standing(figures=QUIET, lanes=[], workers=[], quotas=[status]))
    assert [problem.code for problem in found] == codes
    assert {problem.severity for problem in found} <= {"warning"}, "as the alerts have it"
    if used == "1":
        assert "submits are refused now" in found[0].advice


def test_a_budget_is_told_by_its_keys_name_in_money() -> None:
    """Not by an id, which tells nobody whose it is."""
    quota = replace(new_quota(period="total", rolling=False), owner_kind="key", owner=str(WORKER.id))
    status = QuotaStatus(quota=quota, held=Decimal("0.1"), used=Decimal("0.9"), ends_at=None)
    standing = Standing(figures=QUIET, lanes=[], workers=[], quotas=[status], names={str(WORKER.id): "the web shop"})
    [problem] = problems_of(standing)
    assert "budget of key the web shop is taken (1.00 USD of 1.00 USD)" in problem.what


def test_a_drained_worker_that_is_needed_is_to_be_resumed_by_all_advice() -> None:
    """Where its lane has jobs and nobody else, stopping it would be the wrong thing."""
    standing = Standing(figures=QUIET, lanes=[BUSY], workers=[replace(WORKER, state="drained")])
    found = problems_of(standing)
    assert [problem.code for problem in found] == ["no_worker", "worker_draining"]
    assert all(f"safelight workers resume {WORKER.id}" in problem.advice for problem in found)
    assert not any("stop it" in problem.advice for problem in found)


def test_nothing_is_wrong_where_all_is_served() -> None:
    """A lane with jobs and a worker that takes them."""
    assert problems_of(Standing(figures=QUIET, lanes=[BUSY], workers=[WORKER])) == ()


async def test_what_takes_long_to_make_holds_up_nothing_else() -> None:
    """Whoever asks for the same waits, and it is made once; another name is answered meanwhile."""
    recent, go, made = Recent(2.0), asyncio.Event(), []

    async def slowly() -> str:
        made.append("slow")
        await go.wait()
        return "slow"

    async def at_once() -> str:
        return "quick"

    waiting = [asyncio.create_task(recent.get("a", slowly)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(recent.get("b", at_once), 5) == "quick"
    go.set()
    assert await asyncio.gather(*waiting) == ["slow", "slow"]
    assert made == ["slow"]


async def test_what_was_being_made_when_it_was_forgotten_is_not_kept() -> None:
    """Whoever asks from then on gets what was made from then on, and doesn't wait for the other."""
    recent, go = Recent(2.0), asyncio.Event()

    async def before() -> str:
        await go.wait()
        return "before"

    async def after() -> str:
        return "after"

    waiting = asyncio.create_task(recent.get("a", before))
    await asyncio.sleep(0)
    recent.forget("a")
    assert await asyncio.wait_for(recent.get("a", after), 5) == "after"
    go.set()
    assert await waiting == "before"
    assert await recent.get("a", before) == "after"


async def test_what_was_just_made_is_not_made_again() -> None:
    """Until it is too old; an error is not kept."""
    clock, made = [0.0], []
    recent = Recent(2.0, clock=lambda: clock[0])

    async def make() -> int:
        made.append(1)
        if len(made) == 2:
            raise ValueError("it broke")
        return len(made)

    assert [await recent.get("a", make), await recent.get("a", make)] == [1, 1]
    clock[0] = 3.0
    with pytest.raises(ValueError, match="it broke"):
        await recent.get("a", make)
    assert await recent.get("a", make) == 3
