"""What becomes of a step whose ranks are lost, with groups that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
import torch

from actors.engine.devices import Device, is_device_lost
from actors.engine.errors import DeviceLostError, ModelUnavailableError
from actors.engine.families.base import Inputs
from actors.engine.faults import Fault, fault_of
from actors.engine.parallel.group import Group, GroupLostError
from actors.engine.parallel.kinds import Together
from actors.engine.parallel.orders import Order
from actors.engine.parallel.supervising import Ranks
from actors.engine.stepping import BatchKey
from safelight.config import ParallelSettings

CPU = Device("cpu", "cpu")
KEY = BatchKey("scenes", 64, 64)
PASS = Inputs({"x": torch.ones(1)})


class FakeGroup:
    """As far as ``Ranks`` needs it."""

    weights = peaks = pids = (1, 2)

    def __init__(self, fate: str) -> None:
        self.fate = fate
        self.alive = False
        self.stopped = False

    def start(self) -> None:
        """Or not."""
        if self.fate == "unavailable":
            raise ModelUnavailableError("made up")
        if self.fate == "unborn":
            raise GroupLostError("made up")
        self.alive = True

    def run(self, orders: Sequence[Order], device: Device) -> list[list[torch.Tensor]]:
        """Or not."""
        if self.fate == "lost":
            self.alive = False
            raise GroupLostError("made up")
        return [[one.batched["x"] for one in orders[0].passes], []]

    def stop(self) -> None:
        """For good."""
        self.stopped, self.alive = True, False


class Scripted:
    """Groups that live, are lost in a step, or can't be started, in the order of a script."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.groups: list[FakeGroup] = []

    def make(self) -> Group:
        """The next group."""
        group = FakeGroup(self.script.pop(0))
        self.groups.append(group)
        return cast("Group", group)


def ranks_of(scripted: Scripted) -> Ranks:
    """A model's ranks."""
    return Ranks("scenes", Together(ParallelSettings(kind="ulysses", devices=2)), scripted.make, CPU)


def test_a_step_is_taken_again_by_a_new_group() -> None:
    """Twice, and then it goes on."""
    scripted = Scripted("lost", "lost", "lives")
    ranks = ranks_of(scripted)
    assert torch.equal(ranks.run([PASS], KEY)[0], torch.ones(1))
    assert ranks.groups == 3
    ranks.close()
    assert all(group.stopped for group in scripted.groups)


@pytest.mark.parametrize("script", [("lost", "lost", "lost"), ("lost", "unavailable"), ("lost", "unborn", "unborn")])
def test_ranks_that_stay_lost_are_a_lost_device(script: Sequence[str]) -> None:
    """The engine's thread ends with it: the job goes on from its checkpoint, on another worker."""
    ranks = ranks_of(Scripted(*script))
    ranks.start()
    with pytest.raises(DeviceLostError) as lost:
        ranks.run([PASS], KEY)
    assert is_device_lost(lost.value)
    assert fault_of(lost.value) is Fault.DEVICE


def test_a_model_that_never_loaded_is_the_model_s_fault() -> None:
    """Not the device's."""
    with pytest.raises(ModelUnavailableError):
        ranks_of(Scripted("unavailable")).start()
    with pytest.raises(DeviceLostError):
        ranks_of(Scripted("unborn")).start()


def test_idle_moments_replace_what_was_lost() -> None:
    """Once; where that fails, the next step tries again."""
    scripted = Scripted("lives", "lives", "unborn", "lives")
    ranks = ranks_of(scripted)
    ranks.start()
    assert not ranks.mend()
    scripted.groups[0].alive = False
    assert ranks.mend()
    assert not ranks.mend()
    scripted.groups[1].alive = False
    assert ranks.mend()
    assert not ranks.mend()
    assert len(ranks.run([PASS], KEY)) == 1
    assert ranks.groups == 3
