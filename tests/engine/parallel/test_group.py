"""Groups of rank processes: what they give, how they fail, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from actors.engine.devices import Device
from actors.engine.errors import ModelUnavailableError, OutOfMemoryError
from actors.engine.families.base import Inputs
from actors.engine.parallel import births
from actors.engine.parallel.group import Group, GroupLostError
from actors.engine.parallel.orders import Order
from safelight.config import EngineSettings, ParallelSettings
from tests.engine.conftest import scenes

CPU = Device("cpu", "cpu")
X = torch.arange(6.0).view(2, 3)


def make(model: str = "/any/model", timeout_s: float = 30.0, silence_s: float = 20.0) -> Group:
    """Two adders that have not been started."""
    parallel = ParallelSettings(kind="ulysses", devices=2, timeout_s=timeout_s, silence_s=silence_s)
    program = "tests.engine.parallel.programs:Adder"
    return Group(scenes(Path(model)), parallel, EngineSettings(), [CPU, CPU], program, lambda: None)


def orders(x: torch.Tensor = X, **note: object) -> list[Order]:
    """One for each rank; the second's answer is not wanted."""
    return [Order(passes=(Inputs({"x": x}),), answers=rank == 0, note=note) for rank in range(2)]


class Kept:
    """A group that is there for whoever needs one, made anew after a test that broke it."""

    def __init__(self) -> None:
        self.group = make()

    def get(self) -> Group:
        """A group that is alive."""
        if not self.group.alive:
            self.group = make()
            self.group.start()
        return self.group


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    """Shared by the tests of the module: processes take seconds to start."""
    kept = Kept()
    yield kept
    kept.group.stop()


def gone(pids: tuple[int, ...]) -> bool:
    """No such process is left, not even as a zombie."""
    return not any(psutil.pid_exists(pid) for pid in pids)


def test_ranks_meet_and_the_wanted_answer_comes_back(kept: Kept) -> None:
    """Shared memory grows with what is sent."""
    group = kept.get()
    assert group.weights == (100, 101)
    assert [[tensor.tolist() for tensor in answer] for answer in group.run(orders(), CPU)] == [[(X + 1).tolist()], []]
    large = torch.rand(3, 100_000)
    assert torch.equal(group.run(orders(large), CPU)[0][0], large + 1)
    assert all(peak > 1_000_000 for peak in group.peaks)


def test_what_all_ranks_refuse_leaves_the_group_alone(kept: Kept) -> None:
    """They are in step: the next order is done."""
    group = kept.get()
    with pytest.raises(RuntimeError, match="ValueError: made up"):
        group.run(orders(fails="all"), CPU)
    assert group.alive
    assert group.run(orders(), CPU)[0][0].tolist() == (X + 1).tolist()


def test_memory_that_one_rank_lacks_is_told_as_such(kept: Kept) -> None:
    """The other waits for it in vain, so that the group ends."""
    group = kept.get()
    pids = group.pids
    with pytest.raises(OutOfMemoryError, match="made up"):
        group.run(orders(memory=1), CPU)
    assert not group.alive
    assert gone(pids)


def test_a_rank_that_dies_ends_the_group_at_once(kept: Kept, tmp_path: Path) -> None:
    """And takes the folder where they met with it."""
    group = kept.get()
    pids, folder = group.pids, Path(group.folder)
    assert folder.is_dir()
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(GroupLostError, match=r"rank 1 has died|a rank has died"):
        group.run(orders(sleeps=0), CPU)
    assert gone(pids)
    assert not folder.exists()


def test_a_link_that_is_cut_ends_the_group(kept: Kept) -> None:
    """Both ranks are alive and tell of it: that is no fault of what was asked."""
    group = kept.get()
    pids = group.pids
    with pytest.raises(GroupLostError):
        group.run(orders(cuts=1), CPU)
    assert gone(pids)


@pytest.mark.parametrize("trouble", ["sleeps", "silences"])
def test_a_hung_exchange_is_bounded(trouble: str) -> None:
    """By the time that a step may take: one rank does not come to it, or nothing reaches it any more."""
    group = make(timeout_s=2.0, silence_s=60.0)
    group.start()
    pids = group.pids
    with pytest.raises(GroupLostError):
        group.run(orders(X, **{trouble: 1}), CPU)
    assert gone(pids)


def test_a_stopped_rank_is_known_by_its_silence() -> None:
    """Long before a step's time is over."""
    group = make(timeout_s=300.0, silence_s=3.0)
    group.start()
    pids = group.pids
    os.kill(pids[0], signal.SIGSTOP)
    with pytest.raises(GroupLostError, match="rank 0 has been silent for 3 s"):
        group.run(orders(), CPU)
    assert gone(pids)


def test_a_model_that_a_rank_can_t_load_is_the_model_s_fault() -> None:
    """And no process is left."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    group = make("/any/broken")
    with pytest.raises(ModelUnavailableError, match="made up: it is broken"):
        group.start()
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_ranks_start_without_a_nursery_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA, and on systems that don't fork."""
    monkeypatch.setattr(births, "FORKS", False)
    group = make()
    group.start()
    pids = group.pids
    assert {child.pid for child in psutil.Process().children()} >= set(pids)
    assert group.run(orders(), CPU)[0][0].tolist() == (X + 1).tolist()
    group.stop()
    assert gone(pids)


def test_a_nursery_that_is_gone_is_replaced() -> None:
    """Its ranks go with it, and the next group has a new one."""
    group = make()
    group.start()
    pids = group.pids
    nursery = psutil.Process(pids[0]).parent()
    assert nursery is not None
    nursery.kill()
    with pytest.raises(GroupLostError):
        group.run(orders(sleeps=0), CPU)
    group.start()
    assert group.run(orders(), CPU)[0][0].tolist() == (X + 1).tolist()
    pids += group.pids
    group.stop()
    assert gone(pids)
