"""Keeps a model's ranks going: a group that is lost is replaced, and the step that it was lost in taken again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from actors.engine.errors import DeviceLostError, EngineError
from actors.engine.parallel.group import Group, GroupLostError

if TYPE_CHECKING:
    import torch

    from actors.engine.devices import Device
    from actors.engine.families.base import Inputs
    from actors.engine.parallel.kinds import Plan
    from actors.engine.stepping import BatchKey, Row

_log = structlog.get_logger(__name__)

_TRIES = 3  # of one step: what ends a group each time is the step's own doing, or the machine's


class Ranks:
    """The ranks of one model, over as many groups as it takes. Used by one thread at a time."""

    def __init__(self, name: str, plan: Plan, make: Callable[[], Group], device: Device) -> None:
        """``device`` is where outputs are wanted; ``make`` gives a group that has not been started."""
        self._name = name
        self._plan = plan
        self._make = make
        self._device = device
        self._group: Group | None = None
        self.groups = 0

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the group that is there, in order of ranks."""
        return () if self._group is None else self._group.pids

    @property
    def weights(self) -> tuple[int, ...]:
        """Bytes of weights in each rank."""
        return () if self._group is None else self._group.weights

    @property
    def peaks(self) -> tuple[int, ...]:
        """The most memory that each rank has had, in bytes: its device's, or on a CPU the process's."""
        return () if self._group is None else self._group.peaks

    def start(self) -> None:
        """Have a group that is ready. Raises ModelUnavailableError, OutOfMemoryError, DeviceLostError."""
        try:
            self._ready_group()
        except GroupLostError as error:
            raise DeviceLostError(f"the ranks of model {self._name!r} can't be started: {error}") from error

    def run(self, passes: Sequence[Inputs], key: BatchKey | None, rows: Sequence[Row] = ()) -> list[torch.Tensor]:
        """The output of each pass of a step.

        Raises DeviceLostError where group after group is lost, OutOfMemoryError, and RuntimeError for any other fault.
        """
        for left in reversed(range(_TRIES)):
            try:
                group = self._ready_group(again=True)
                answers = group.run(self._plan.orders(passes, key, rows), self._device)
            except GroupLostError as error:
                _log.warning("ranks lost", action="engine.ranks_lost", model=self._name, error=str(error), tries=left)
                if not left:
                    raise DeviceLostError(f"the ranks of model {self._name!r} are lost: {error}") from error
            else:
                return self._plan.join(answers, len(passes))
        raise DeviceLostError("no tries are left")

    def mend(self) -> bool:
        """Replace a group that was lost while nobody needed it; False where there is nothing to do."""
        if self._group is None or self._group.alive:
            return False
        try:
            self._ready_group()
        except (GroupLostError, EngineError) as error:
            self._group = None  # the next step tries again, and says so to whoever waits for it
            _log.warning("ranks not replaced", action="engine.ranks_lost", model=self._name, error=str(error), tries=1)
        return True

    def close(self) -> None:
        """End all processes."""
        if self._group is not None:
            self._group.stop()
            self._group = None

    def _ready_group(self, *, again: bool = False) -> Group:
        """The group, or a new one; ``again`` says that a model that could be loaded before can't be blamed."""
        if self._group is not None and self._group.alive:
            return self._group
        self.close()
        began, group = time.monotonic(), self._make()
        try:
            group.start()
        except EngineError as error:
            if again:
                raise DeviceLostError(f"the ranks of model {self._name!r} can't be replaced: {error}") from error
            raise
        self._group = group
        self.groups += 1
        self._plan.begin()
        _log.info(
            "ranks ready",
            action="engine.ranks_ready",
            model=self._name,
            pids=group.pids,
            weights_mb=[round(one / 1e6, 1) for one in group.weights],
            seconds=round(time.monotonic() - began, 3),
        )
        return group
