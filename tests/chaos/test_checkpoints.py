"""Unfinished renders of a real model, taken up by another worker: few steps are lost, and the picture is the same."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pytest
from PIL import Image

from jobstore.checkpoints import checkpoint_key
from tests.chaos.desk import Desk
from tests.chaos.faults import kill
from tests.chaos.house import House, Plan
from tests.chaos.member import Member, url_of
from tests.chaos.servers import Servers
from tests.chaos.test_workers import holder_of
from tests.e2e.processes import REPOSITORY, wait_for

STEPS = 400  # of some ten milliseconds
INTERVAL_S = 0.5
REQUEST: dict[str, Any] = {"prompt": "a red circle left of a blue square", "seed": 5, "steps": STEPS, "cache": "off"}


@pytest.fixture(scope="module")
def shared_house(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """An API and two workers that render the model that ships, on the CPU."""
    model = str(REPOSITORY / "models/scenes-flux")
    plan = Plan(apis=1, workers=2, lease_s=4.0, model=model, checkpoint_s=INTERVAL_S)
    folder: Path = tmp_path_factory.mktemp("house")
    with House(servers, folder, plan) as house:
        yield house


@pytest.fixture(scope="module")
def undisturbed(shared_house: House) -> np.ndarray[Any, Any]:
    """The picture as it is when nobody dies."""
    desk = Desk(shared_house)
    job_id = desk.submit(**REQUEST)
    desk.wait(job_id)
    return picture_of(shared_house, job_id)


def picture_of(house: House, job_id: str) -> np.ndarray[Any, Any]:
    """The job's picture: [height, width, 3] of 0…255."""
    data = httpx.get(f"{url_of(house.apis[0])}/v1/jobs/{job_id}/images/0").raise_for_status().content
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.int16)


def begun(house: House, desk: Desk, *, checkpointed: bool) -> tuple[str, Member, int]:
    """A job in mid-render, the worker that has it, and a step that it has done."""
    job_id = desk.submit(**REQUEST)
    holder = holder_of(house, job_id)
    if checkpointed:
        file = house.outputs / checkpoint_key(UUID(job_id))
        wait_for("a checkpoint", file.exists)

    def step() -> int | None:
        done = int(desk.job(job_id)["progress"]["step"])
        return done if done > STEPS / 3 else None

    return job_id, holder, wait_for("a third of the steps", step)


def resumed_at(house: House, job_id: str) -> int:
    """The step that a checkpoint brought the job's last render to, as its worker's log tells."""
    for worker in house.workers:
        for line in worker.log.read_text().splitlines():
            if "rendering.resumed" in line and job_id in line:
                return int(json.loads(line)["step"])
    return 0


def assert_same(house: House, job_id: str, undisturbed: np.ndarray[Any, Any]) -> None:
    """Equal up to rounding, and nothing is left of the checkpoint."""
    assert np.abs(picture_of(house, job_id) - undisturbed).max() <= 1
    assert not list((house.outputs / "checkpoints").glob(f"{job_id}*"))


def test_killed_in_mid_render(house: House, desk: Desk, undisturbed: np.ndarray[Any, Any]) -> None:
    """kill -9: another worker goes on from the last interval."""
    job_id, victim, step = begun(house, desk, checkpointed=True)
    kill(house, victim)
    assert holder_of(house, job_id, but=victim) is not victim
    assert desk.wait(job_id)["state"] == "succeeded"
    assert desk.facts(job_id) == {"rescues": 1, "attempts": 1, "claims": 2}
    seconds_a_step = float(desk.job(job_id)["cost"]["gpu_seconds"]) / (STEPS - resumed_at(house, job_id))
    lost = step - resumed_at(house, job_id)
    assert lost <= (INTERVAL_S + 0.5) / seconds_a_step, (step, resumed_at(house, job_id), seconds_a_step)
    assert_same(house, job_id, undisturbed)


def test_stopped_in_mid_render(house: House, desk: Desk, undisturbed: np.ndarray[Any, Any]) -> None:
    """SIGTERM: not a step is lost."""
    job_id, leaving, step = begun(house, desk, checkpointed=False)
    leaving.send(signal.SIGTERM)
    assert holder_of(house, job_id, but=leaving) is not leaving
    assert desk.wait(job_id)["state"] == "succeeded"
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 2}
    assert resumed_at(house, job_id) >= step
    assert_same(house, job_id, undisturbed)
