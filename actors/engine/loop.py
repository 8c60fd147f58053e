"""The loop: let in, step, hand out, let go. Requests join and leave at every denoising step.

One turn is one step of one group. The loop knows neither torch nor a device: a ``Stepper`` does a step, ``Marks`` tell
when it is done, and a ``Developer`` decodes beside it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import structlog

from actors.engine.admission import Line
from actors.engine.busy import BusyTime
from actors.engine.developing import Developer
from actors.engine.doors import Doors
from actors.engine.errors import EngineError
from actors.engine.faults import BatchLimits, Fault, as_engine_error, fault_of
from actors.engine.groups import Charge, Group, Groups, by_row
from actors.engine.leaving import Leaving
from actors.engine.marks import Mark, Marks
from actors.engine.observer import Observer, StepTaken
from actors.engine.request import Handle, RenderRequest
from actors.engine.stepping import BatchKey, Row, Stepper
from actors.engine.tasks import Task
from safelight.config import EngineSettings

_log = structlog.get_logger(__name__)


class Models(Protocol):
    """The models that an engine serves, a few of them loaded. Belongs to the engine's thread."""

    @property
    def loaded(self) -> tuple[str, ...]:
        """The models that are loaded, the one used last at the end. From any thread."""

    def peek(self, request: RenderRequest) -> Stepper | None:
        """What renders the request, if its model is loaded. Raises ModelUnavailableError, InvalidRequestError."""

    def can_load(self, name: str, in_use: set[str]) -> bool:
        """Whether there is room for it once models that are not in use are let go."""

    def load(self, name: str, in_use: set[str]) -> None:
        """Load the model, and let go of others for it. Raises ModelUnavailableError, OutOfMemoryError."""

    def relieve(self, in_use: set[str]) -> bool:
        """Give up what memory can be given up without a model in use; False where there is nothing to give up."""

    def idle(self) -> bool:
        """Do a piece of what is left for idle times; False where there is nothing."""

    def clear(self) -> None:
        """Let go of all models."""


@dataclass(frozen=True, slots=True)
class _Launched:
    """A step that the device was given: its rows, and at which evaluation each stands after it."""

    mark: Mark
    key: BatchKey
    rows: tuple[tuple[Row, int], ...]
    padded: int
    limit: int
    began: float


class Loop:
    """Steps what the line lets in. Belongs to the engine's thread."""

    def __init__(
        self,
        line: Line,
        models: Models,
        developer: Developer,
        marks: Marks,
        settings: EngineSettings,
        observer: Observer,
        *,
        device: str,
        identity: Callable[[Handle], str],
        loading: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        charge: Charge = by_row,
    ) -> None:
        """``device`` is its label for people, ``identity`` tells whose checkpoint is whose.

        ``loading`` is entered while a model loads.
        """
        self._models = models
        self._marks = marks
        self._observer = observer
        self._device = device
        self._clock = clock
        self._groups = Groups(settings.open_groups, charge)
        self._memory = BatchLimits(clock)
        self._tasks: dict[Row, Task] = {}
        self._under_way: deque[_Launched] = deque()
        self._busy = BusyTime(observer)
        self._developed: list[Task] = []
        self._leaving = Leaving(line, developer, device=device, identity=identity, busy=self._busy, clock=clock)
        self._doors = Doors(
            line,
            models,
            self,
            self._groups,
            settings,
            observer,
            device=device,
            identity=identity,
            loading=loading,
            busy=self._busy,
            clock=clock,
        )

    @property
    def busy_seconds(self) -> float:
        """How long the device has worked so far. From any thread."""
        return self._busy.seconds

    def turn(self) -> bool:
        """Let in, step one group, hand out; False where there is nothing to step."""
        self._let_go()
        self._doors.let_in()
        group = self._groups.next()
        if group is not None:
            self._step(group)
            return True
        under_way = bool(self._under_way)
        self._catch_up(0)
        return under_way

    @property
    def in_use(self) -> set[str]:
        """The models that have rows, or pictures to be made of them."""
        self._developed = [task for task in self._developed if not task.over]
        return {row.key.model for row in self._tasks} | {task.rows[0].key.model for task in self._developed}

    @property
    def under_way(self) -> bool:
        """True while the device was given steps that have not arrived: what it does besides is not counted."""
        return bool(self._under_way)

    @property
    def stepping(self) -> bool:
        """True while some row has a step to take."""
        return bool(self._groups)

    def room(self, group: Group | None, stepper: Stepper, key: BatchKey) -> int:
        """How many more rows of a key are worth taking in."""
        return self._limit(stepper, key) - (group.size if group else 0)

    def take_in(self, task: Task, now: float) -> None:
        """Let a request's rows step from now on; those that are done already are developed."""
        self._tasks.update(dict.fromkeys(task.rows, task))
        task.checkpoint_at = now
        left = [row for row in task.rows if not row.done]
        if left:
            self._groups.add(left[0].key, left, now)
        for row in task.rows:
            if row.done:
                self._develop(task, row)

    def relieve(self) -> bool:
        """Give up memory that no request in here needs; False where there is none."""
        self._catch_up(0)
        return self._models.relieve(self.in_use)

    def _let_go(self) -> None:
        """Requests that were canceled, are late, have failed, or must stop with the engine."""
        for task in dict.fromkeys(self._tasks.values()):
            reason = None if task.over else self._leaving.reason(task)
            if reason is not None or task.over:
                self._remove(task)
            if reason is not None:
                self._leaving.stop(task, reason)

    def _remove(self, task: Task) -> None:
        for row in task.rows:
            if self._tasks.pop(row, None) is not None:
                self._groups.remove(row)
                if not row.done:
                    task.stepper.drop(row)

    def _limit(self, stepper: Stepper, key: BatchKey) -> int:
        return self._memory.of(key, stepper.limit(key))

    def _step(self, group: Group) -> None:
        stepper = self._tasks[(group.rows or group.waiting)[0]].stepper
        limit = self._limit(stepper, group.key)
        began, rows = self._clock(), group.fill(limit)
        self._advance(stepper, rows, limit, began)
        self._catch_up(self._marks.depth)
        self._groups.charge(group, self._clock() - began, len(rows))

    def _advance(self, stepper: Stepper, rows: Sequence[Row], limit: int, began: float) -> None:
        """One step of these rows; where it fails, of each half, down to the one that is to blame."""
        if not rows:
            return
        try:
            padded = stepper.step(rows)
        except Exception as error:
            fault, failure = fault_of(error), as_engine_error(error, device=self._device, size=rows[0].key.size)
            if fault is Fault.DEVICE:
                raise
            if fault is Fault.ROW and not isinstance(error, EngineError):
                _log.exception("a step failed", action="engine.step_failed", model=rows[0].key.model, rows=len(rows))
        else:
            self._launched(rows, padded, limit, began)
            return
        # Outside the except block, whose traceback would keep the tensors of the failed step alive.
        self._after_fault(stepper, rows, limit, fault, failure)

    def _after_fault(
        self, stepper: Stepper, rows: Sequence[Row], limit: int, fault: Fault, failure: EngineError
    ) -> None:
        if len(rows) == 1:
            if fault is not Fault.MEMORY or not self.relieve() or not self._stepped_after_all(stepper, rows[0], limit):
                self._fail(self._tasks[rows[0]], failure)
            return
        if fault is Fault.MEMORY:
            self._ran_out(rows)
        half = (len(rows) + 1) // 2
        for part in (rows[:half], rows[half:]):
            # A row of the second half may have gone with its request, to which the first half belonged too.
            self._advance(stepper, [row for row in part if row in self._tasks], limit, self._clock())

    def _stepped_after_all(self, stepper: Stepper, row: Row, limit: int) -> bool:
        """One more try with the memory that was given up."""
        began = self._clock()
        try:
            padded = stepper.step([row])
        except Exception as error:
            if fault_of(error) is Fault.DEVICE:
                raise
            return False
        self._launched([row], padded, limit, began)
        return True

    def _ran_out(self, rows: Sequence[Row]) -> None:
        key = rows[0].key
        self._catch_up(0)
        self._memory.ran_out(key, len(rows))
        self._observer.halved(key.model)
        self._models.relieve(self.in_use)
        _log.warning(
            "out of memory, batch halved", action="engine.batch_halved", model=key.model, size=key.size, rows=len(rows)
        )

    def _fail(self, task: Task, error: EngineError) -> None:
        self._remove(task)
        self._leaving.fail(task, error)

    def _launched(self, rows: Sequence[Row], padded: int, limit: int, began: float) -> None:
        stand = tuple((row, row.step) for row in rows)
        self._under_way.append(_Launched(self._marks.set(), rows[0].key, stand, padded, limit, began))
        for row in rows:
            if row.done:
                self._groups.remove(row)

    def _catch_up(self, depth: int) -> None:
        """Wait until no more than ``depth`` steps are under way, and hand out what the others gave."""
        while len(self._under_way) > depth:
            self._arrived(self._under_way.popleft())

    def _arrived(self, step: _Launched) -> None:
        step.mark.wait()
        now = self._clock()
        seconds = self._busy.charge(step.began, now)
        self._observer.stepped(
            StepTaken(
                model=step.key.model,
                size=step.key.size,
                rows=len(step.rows),
                padded=step.padded,
                limit=step.limit,
                seconds=seconds,
            )
        )
        here = [(self._tasks[row], row, evaluation) for row, evaluation in step.rows if row in self._tasks]
        for task, row, evaluation in here:
            task.stepped(seconds, len(step.rows))
            task.arrived(row, evaluation)
        for task, row, evaluation in here:
            self._hand_out(task, row, evaluation, now)

    def _hand_out(self, task: Task, row: Row, evaluation: int, now: float) -> None:
        task.tell_progress()
        if evaluation >= row.steps:
            self._develop(task, row)
        elif not row.done:
            self._leaving.preview(task, row)
        self._leaving.checkpoint(task, now)

    def _develop(self, task: Task, row: Row) -> None:
        """Decode a row that is done, beside the steps of others. With the last one the loop forgets the request."""
        task.developing += 1
        if task.developing == len(task.rows):
            for each in task.rows:
                self._tasks.pop(each, None)
            self._developed.append(task)
        self._leaving.develop(task, row)
