"""A model on two ranks, one of which dies or freezes: the job's own worker goes on, or the next one does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.chaos.desk import Desk
from tests.chaos.house import House, Plan
from tests.chaos.member import Member
from tests.chaos.servers import Servers
from tests.chaos.test_checkpoints import assert_same, picture_of, resumed_at
from tests.e2e.processes import REPOSITORY, wait_for

STEPS = 100
START_S = 120.0  # a worker's, with all libraries, beside other tests
REQUEST: dict[str, Any] = {"prompt": "a red circle left of a blue square", "seed": 5, "steps": STEPS, "cache": "off"}
PARALLEL = """
[models.scenes.parallel]
kind = "ulysses"
devices = 2
silence_s = 3.0
"""


@pytest.fixture(scope="module")
def shared_house(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """An API, and a worker with two ranks."""
    model = str(REPOSITORY / "models/scenes-flux")
    folder: Path = tmp_path_factory.mktemp("house")
    with House(servers, folder, Plan(workers=1, lease_s=4.0, model=model, more=PARALLEL)) as house:
        wait_for("two ranks", lambda: len(ranks_of(house.workers[0])) == 2, START_S)
        yield house


@pytest.fixture(scope="module")
def undisturbed(shared_house: House) -> np.ndarray[Any, Any]:
    """The picture as it is when nobody dies."""
    desk = Desk(shared_house)
    job_id = desk.submit(**REQUEST)
    desk.wait(job_id)
    return picture_of(shared_house, job_id)


def ranks_of(worker: Member) -> list[int]:
    """The processes of the worker's ranks, the first one first; none while there is no worker."""
    try:
        children = psutil.Process(worker.pid).children(recursive=True)
        return sorted(child.pid for child in children if child.ppid() != worker.pid)
    except psutil.NoSuchProcess:
        return []


def begun(desk: Desk) -> str:
    """A job in mid-render."""
    job_id = desk.submit(**REQUEST)
    wait_for("a fifth of the steps", lambda: int(desk.job(job_id)["progress"]["step"]) > STEPS / 5)
    return job_id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_goes_in_mid_render(
    house: House, desk: Desk, undisturbed: np.ndarray[Any, Any], number: signal.Signals
) -> None:
    """Neither a rescue nor an attempt is spent on it: the worker has the job all the time."""
    job_id = begun(desk)
    os.kill(ranks_of(house.workers[0])[1], number)
    assert desk.wait(job_id)["state"] == "succeeded"
    assert desk.facts(job_id) == {"rescues": 0, "attempts": 1, "claims": 1}
    assert_same(house, job_id, undisturbed)


def test_ranks_that_go_again_and_again(house: House, desk: Desk, undisturbed: np.ndarray[Any, Any]) -> None:
    """The worker gives up and leaves; the one that is started in its place goes on from the checkpoint."""
    worker = house.workers[0]
    job_id = begun(desk)
    lives = worker.lives

    def strike() -> bool:
        for pid in ranks_of(worker) if worker.lives == lives else ():
            os.kill(pid, signal.SIGKILL)
        return worker.lives > lives

    wait_for("the worker to be started again", strike)
    wait_for("its ranks", lambda: len(ranks_of(worker)) == 2, START_S)
    assert desk.wait(job_id)["state"] == "succeeded"
    assert desk.facts(job_id) == {"rescues": 1, "attempts": 1, "claims": 2}
    assert resumed_at(house, job_id) > 0
    assert_same(house, job_id, undisturbed)
