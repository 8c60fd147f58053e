"""How jobs look on a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from jobstore.job import JobState
from safelight.cli.client.look import COLOURS, details, jobs_table, progress_of, span
from safelight.cli.client.progress import ENDED, standing
from safelight.cli.money import money


def job(state: str = "queued", **more: Any) -> dict[str, Any]:
    """A job as the API tells of it."""
    return {
        "id": "01890000-0000-7000-8000-000000000000",
        "state": state,
        "model": "scenes",
        "request": {"prompt": "a red circle", "steps": 8},
        "progress": {"step": 3, "steps": 8, "fraction": 0.3},
        "queue": {"position": None, "eta_s": None, "paused": False},
        "cost": {"currency": "USD", "reserved": "0.01", "charged": "0"},
        "error": None,
        "created_at": "2026-01-31T12:00:00Z",
        "finished_at": None,
        **more,
    }


def test_every_state_has_its_colour_and_its_end() -> None:
    """A state that is new wants a colour; which ones are an end is the job model's word."""
    assert set(COLOURS) == set(JobState)
    assert set(ENDED) == {"succeeded", "failed", "canceled", "dead"}


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ({"position": 3, "eta_s": 12.4, "paused": False}, "3 in line, starts in about 12 s"),
        ({"position": 3, "eta_s": 0.0, "paused": False}, "3 in line, starts in a moment"),
        ({"position": 3, "eta_s": 150.0, "paused": False}, "3 in line, starts in about 2 min"),
        ({"position": 3, "eta_s": None, "paused": False}, "3 in line"),
        ({"position": 3, "eta_s": 12.4, "paused": True}, "3 in line, lane paused"),
        ({"position": None, "eta_s": None, "paused": True}, "lane paused"),
        ({"position": None, "eta_s": None, "paused": False}, ""),
        ({"position": 3, "eta_s": None}, "3 in line"),
    ],
)
def test_a_place_in_the_queue_is_told_with_its_time(queue: dict[str, Any], words: str) -> None:
    """Where nobody knows it, the place alone; a server of before knows no pause."""
    assert progress_of(job(queue=queue)) == words
    assert standing(job(queue=queue)) == (f"queued, {words}" if words else "queued")


@pytest.mark.parametrize(("text", "shown"), [("0.1", "0.10"), ("2", "2.00"), ("0", "0.00"), ("12.203", "12.203")])
def test_money_has_two_decimals_at_least(text: str, shown: str) -> None:
    """And none that it has is dropped."""
    assert money(text, "USD") == f"{shown} USD"


def test_a_job_that_runs_tells_its_steps() -> None:
    """And nothing of a queue."""
    assert progress_of(job("running")) == "3/8"
    assert standing(job("running")) == "running"


def test_errors_have_a_column_where_there_are_any() -> None:
    """The code of each, as it is."""
    console = Console(width=200)
    dead = job("dead", error={"code": "worker_lost", "message": "it fell silent"}, finished_at="2026-01-31T12:00:01Z")
    with console.capture() as told:
        console.print(jobs_table([dead, job("failed", error={"code": "[b]odd", "message": ""}), job()]))
    assert "ERROR" in told.get()
    assert "worker_lost" in told.get()
    assert "[b]odd" in told.get()
    with console.capture() as told:
        console.print(jobs_table([job()]))
    assert "ERROR" not in told.get()


def test_times_have_one_unit() -> None:
    """Rounded down."""
    assert [span(seconds) for seconds in (-1, 0.9, 59.9, 60, 3600, 90_000)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "1 h",
        "1 d",
    ]


def test_a_fallback_tells_whose_place_it_takes() -> None:
    """Beside its model; a job whose own model renders it tells nothing."""
    more: dict[str, Any] = {
        "cache": "miss", "attempts": 1, "dimensions": {}, "images": [], "warnings": [], "started_at": None,
        "cost": {"currency": "USD", "reserved": "0.01", "charged": "0", "gpu_seconds": "0"},
    }  # fmt: skip
    console = Console(width=100)
    for asked, words in (("far", "scenes (instead of far)"), (None, "scenes")):
        with console.capture() as told:
            console.print(details(job(**more, fallback_for=asked), "http://127.0.0.1:8080"))
        [line] = [line for line in told.get().splitlines() if line.startswith("model")]
        assert line.split(maxsplit=1)[1].strip() == words
