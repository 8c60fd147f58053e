"""What a worker counts of jobs, claims and beats."""

from __future__ import annotations

import time

import pytest
from prometheus_client import REGISTRY

from jobstore.job import JobState
from jobstore.postgres.store import PostgresStore
from tests.actors.harness import Darkroom
from tests.e2e.processes import wait_for

MODEL = {"model": "scenes"}


def sample(name: str, **labels: str) -> float:
    """A sample of this process; it must be there."""
    found = REGISTRY.get_sample_value(name, labels)
    assert found is not None, (name, labels)
    return found


def counted() -> dict[str, float]:
    """What a job changes."""
    return {
        "claimed": sample("safelight_claims_total", outcome="claimed"),
        "charged": sample("safelight_charged_total", currency="USD", **MODEL),
        "pictures": sample("safelight_pictures_total", **MODEL),
        "completed": sample("safelight_job_completion_seconds_count", **MODEL),
        "succeeded": sample("safelight_jobs_finished_total", state="succeeded", **MODEL),
        "dead": sample("safelight_jobs_finished_total", state="dead", **MODEL),
    }


async def test_a_job_is_counted(darkroom: Darkroom) -> None:
    """Its claim, its pictures, its price and its time; all are there before, at what they were."""
    worker = await darkroom.start(slots=2)
    before = counted()
    job = await darkroom.wait((await darkroom.submit(n=2)).id)
    assert job.state is JobState.SUCCEEDED
    await darkroom.stop()
    change = {name: value - before[name] for name, value in counted().items()}
    assert change == pytest.approx(
        {"claimed": 1, "charged": 0.01, "pictures": 2, "completed": 1, "succeeded": 1, "dead": 0}
    )
    assert sample("safelight_worker_slots", device="cpu") == 2
    assert worker.healthy


async def test_beats_and_failed_claims_are_told(darkroom: Darkroom, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last beat goes on; a claim that the store refuses is none."""
    beat = "safelight_worker_last_beat_timestamp_seconds"
    await darkroom.start()
    first = sample(beat, device="cpu")
    assert first == pytest.approx(time.time(), abs=60)
    wait_for("another beat", lambda: sample(beat, device="cpu") > first)
    failed = sample("safelight_claims_total", outcome="failed")

    async def refuse(*_arguments: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(PostgresStore, "claim", refuse)
    darkroom.ring()
    wait_for("the failed claim", lambda: sample("safelight_claims_total", outcome="failed") > failed)
