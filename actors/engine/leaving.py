"""What the loop hands out, and how a request leaves it: with its pictures, an error, or a checkpoint to go on from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from actors.engine.admission import Line
from actors.engine.busy import BusyTime
from actors.engine.checkpoints import pack
from actors.engine.developing import Developer
from actors.engine.errors import EngineError, EngineStoppedError, OutOfMemoryError
from actors.engine.faults import Fault, as_engine_error, fault_of
from actors.engine.request import Handle
from actors.engine.stepping import Finished, Row, RowState
from actors.engine.tasks import Task

_log = structlog.get_logger(__name__)

_DECODE_TRIES = 3
_DECODE_PAUSE_S = 0.2  # other rows leave meanwhile, and their memory with them


class Leaving:
    """Everything that goes from the loop to its requests. Called on the engine's thread; works on the developer's."""

    def __init__(
        self,
        line: Line,
        developer: Developer,
        *,
        device: str,
        identity: Callable[[Handle], str],
        busy: BusyTime,
        clock: Callable[[], float],
    ) -> None:
        self._line = line
        self._developer = developer
        self._device = device
        self._identity = identity
        self._busy = busy
        self._clock = clock

    def reason(self, task: Task) -> EngineError | None:
        """Why the request should be rendered no further; None if it should go on."""
        return self._line.reason_to_stop(task.handle)

    def fail(self, task: Task, error: EngineError) -> None:
        """The request ends with an error, unless it has its outcome. From any thread."""
        if task.end():
            self._line.leave(task.handle, task.stamped(error))

    def stop(self, task: Task, reason: EngineError) -> None:
        """The request stops at a step boundary, with a checkpoint where one was asked for."""
        states = self._states(task) if task.handle.keep_requested else None
        if states is None:
            self.fail(task, reason)
        elif task.end():
            self._developer.put(lambda: self._keep(task, reason, states))

    def _keep(self, task: Task, reason: EngineError, states: Sequence[Callable[[], RowState]]) -> None:
        try:
            reason.checkpoint = self._packed(task, states)
        finally:
            self._line.leave(task.handle, task.stamped(reason))

    def preview(self, task: Task, row: Row) -> None:
        """A small picture of the row, where somebody wants one at this step."""
        every = task.handle.watch.preview_every
        if not every or task.handle.watch.on_preview is None or row.step % every:
            return
        make = task.stepper.preview(row)
        if make is not None:
            step = row.step
            self._developer.preview(row, lambda: None if task.over else task.tell_preview(row, step, make()))

    def checkpoint(self, task: Task, now: float) -> None:
        """A checkpoint, where one is due and none is in the making."""
        every_s = task.handle.watch.checkpoint_every_s
        if task.handle.watch.on_checkpoint is None or every_s is None:
            return
        if task.checkpoint_under_way or now - task.checkpoint_at < every_s:
            return
        states = self._states(task)
        if states is None:
            return
        task.checkpoint_at, task.checkpoint_under_way = now, True

        def make() -> None:
            try:
                task.tell_checkpoint(self._packed(task, states))
            finally:
                task.checkpoint_under_way = False

        self._developer.put(make)

    def develop(self, task: Task, row: Row) -> None:
        """Make the row's pictures, and end the request with the last of them."""

        def make() -> None:
            try:
                self._made(task, row)
            except BaseException as error:
                self.fail(task, as_engine_error(error, device=self._device))
                raise

        self._developer.put(make)

    def _made(self, task: Task, row: Row) -> None:
        reason = None if task.over else self._reason_not_to_finish(task)
        if reason is not None:
            self.fail(task, reason)
        if task.over:
            return
        finished = self._finished(task, row)
        if isinstance(finished, EngineError):
            self.fail(task, finished)
        elif task.put(row, finished):
            self._end(task)

    def _end(self, task: Task) -> None:
        reason = self._reason_not_to_finish(task)
        outcome = task.stamped(reason) if reason else task.result(self._device)
        if task.end():
            self._line.leave(task.handle, outcome)

    def _reason_not_to_finish(self, task: Task) -> EngineError | None:
        """Why pictures that only have to be decoded are not wanted. To hand them back would be to lose them."""
        reason = self.reason(task)
        stops = task.handle.keep_requested or isinstance(reason, EngineStoppedError)
        return None if stops and task.developing == len(task.rows) else reason

    def _finished(self, task: Task, row: Row) -> Finished | EngineError:
        """The row's pictures. Out of memory is tried again: rows that leave give theirs back.

        torch's cache is not emptied for it: the allocator did so itself, and the engine's thread may be capturing.
        """
        for tries in range(1, _DECODE_TRIES + 1):
            outcome = self._tried(task, row)
            if not isinstance(outcome, OutOfMemoryError) or tries == _DECODE_TRIES:
                break
            time.sleep(_DECODE_PAUSE_S)
        return outcome

    def _tried(self, task: Task, row: Row) -> Finished | EngineError:
        try:
            return self._charged(task, row)
        except Exception as error:
            if fault_of(error) is not Fault.MEMORY and not isinstance(error, EngineError):
                _log.exception("a picture could not be made", action="engine.finish_failed", model=row.key.model)
            return as_engine_error(error, device=self._device, size=row.key.size)

    def _charged(self, task: Task, row: Row) -> Finished:
        began = self._clock()
        try:
            return task.stepper.finish(row)
        finally:
            task.charge(self._busy.charge(began, self._clock()))

    def _states(self, task: Task) -> Sequence[Callable[[], RowState]] | None:
        """What gives the rows' states as they stand now; None where one has none."""
        states = [task.stepper.snapshot(row) for row in task.rows]
        return [state for state in states if state is not None] if all(states) else None

    def _packed(self, task: Task, states: Sequence[Callable[[], RowState]]) -> bytes:
        return pack([state() for state in states], self._identity(task.handle))
