"""Who comes in: the policy of groups applied to those that wait, and what must be done before a first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import structlog

from actors.engine.admission import Line
from actors.engine.busy import BusyTime
from actors.engine.checkpoints import unpack
from actors.engine.errors import CheckpointError, EngineError
from actors.engine.faults import Fault, as_engine_error, fault_of
from actors.engine.groups import Group, Groups
from actors.engine.observer import Observer
from actors.engine.request import Handle
from actors.engine.stepping import Admitted, BatchKey, Stepper
from actors.engine.tasks import Task
from safelight.config import EngineSettings

if TYPE_CHECKING:
    from actors.engine.loop import Models

_log = structlog.get_logger(__name__)

_BEGINS_ANEW = "the checkpoint could not be used; the render began anew"


class Room(Protocol):
    """What the loop tells of itself to whoever lets requests in."""

    @property
    def in_use(self) -> set[str]:
        """The models that have rows."""

    @property
    def stepping(self) -> bool:
        """True while some row has a step to take."""

    @property
    def under_way(self) -> bool:
        """True while the device was given steps that have not arrived."""

    def room(self, group: Group | None, stepper: Stepper, key: BatchKey) -> int:
        """How many more rows of a key are worth taking in."""

    def take_in(self, task: Task, now: float) -> None:
        """Let a request's rows step from now on."""

    def relieve(self) -> bool:
        """Give up memory that no request in here needs; False where there is none."""


class Doors:
    """Lets requests in. Belongs to the engine's thread."""

    def __init__(
        self,
        line: Line,
        models: Models,
        room: Room,
        groups: Groups,
        settings: EngineSettings,
        observer: Observer,
        *,
        device: str,
        identity: Callable[[Handle], str],
        loading: Callable[[], AbstractContextManager[None]],
        busy: BusyTime,
        clock: Callable[[], float],
    ) -> None:
        self._line = line
        self._models = models
        self._room = room
        self._groups = groups
        self._patience_s = settings.patience_s
        self._observer = observer
        self._device = device
        self._identity = identity
        self._loading = loading
        self._busy = busy
        self._clock = clock
        self._keys: dict[Handle, BatchKey] = {}
        self._first: list[Handle] = []  # the one that has waited too long for a group of its own

    def let_in(self) -> None:
        """Everyone that waits, in order: in, or left waiting, or out where it can't be rendered."""
        self._line.prune()
        self._first.clear()
        blocked = [handle for handle in self._line.waiting() if not self._settled(handle)]
        self._keys = {handle: self._keys[handle] for handle in blocked if handle in self._keys}
        if self._first:
            self._groups.close_oldest()
        else:
            self._groups.reopen()

    def _impatient(self, handle: Handle) -> bool:
        return self._clock() - handle.submitted_at > self._patience_s

    def _settled(self, handle: Handle) -> bool:
        """True where the request no longer waits."""
        try:
            stepper = self._stepper(handle)
            key = None if stepper is None else self._key(handle, stepper)
        except Exception as error:
            if fault_of(error) is Fault.DEVICE:
                raise
            self._line.leave(handle, self._told(error, handle.request.model, "a request could not be taken in"))
            return True
        group = None if key is None else self._groups.get(key)
        if group is None and not self._first and self._impatient(handle):
            self._first.append(handle)  # from here on nobody opens a group, or has a model loaded, before it
        if stepper is None or key is None or not self._may_enter(handle, group, stepper, key):
            return False
        self._let_in(handle, stepper, key)
        return True

    def _may_enter(self, handle: Handle, group: Group | None, stepper: Stepper, key: BatchKey) -> bool:
        if group is None and (self._groups.full or self._first not in ([], [handle])):
            return False
        return (group is None or not group.closing) and self._room.room(group, stepper, key) > 0

    def _stepper(self, handle: Handle) -> Stepper | None:
        """The request's model; loaded where nobody is kept from stepping by that, or it has waited long enough."""
        request = handle.request
        stepper = self._models.peek(request)
        if stepper is not None or self._first:
            return stepper
        may = not self._room.stepping or (self._impatient(handle) and not self._groups.full)
        if not may or not self._models.can_load(request.model, self._room.in_use):
            return None
        with self._loading():
            self._models.load(request.model, self._room.in_use)
        return self._models.peek(request)

    def _key(self, handle: Handle, stepper: Stepper) -> BatchKey:
        key = self._keys.get(handle)
        if key is None:
            key = self._keys[handle] = stepper.key(handle.request)
        return key

    def _let_in(self, handle: Handle, stepper: Stepper, key: BatchKey) -> None:
        if not self._line.enter(handle):
            return
        began = self._clock()
        self._observer.admitted(handle.request.model, max(began - handle.submitted_at, 0.0))
        try:
            task = self._task(handle, stepper, key)
        except EngineError as error:
            error.device_seconds += self._spent(began)
            self._line.leave(handle, error)
            return
        task.charge(self._spent(began))
        self._room.take_in(task, self._clock())

    def _spent(self, began: float) -> float:
        """The device's seconds since then; none where a step was under way, which is charged with them."""
        return 0.0 if self._room.under_way else self._busy.charge(began, self._clock())

    def _task(self, handle: Handle, stepper: Stepper, key: BatchKey) -> Task:
        """The request in rows, gone on from its checkpoint where it has one that fits. Raises EngineError's kinds."""
        admitted = self._admitted(handle, stepper, key)
        warnings: Iterable[str] = ()
        if handle.request.checkpoint is not None:
            try:
                self._restore(handle, handle.request.checkpoint, stepper, admitted)
            except CheckpointError as error:
                _log.warning("checkpoint not used", action="engine.checkpoint_refused", error=str(error))
                admitted, warnings = self._admitted(handle, stepper, key), (_BEGINS_ANEW,)
        task = Task(
            handle=handle,
            stepper=stepper,
            rows=admitted.rows,
            sampler=admitted.sampler,
            warnings=(*admitted.warnings, *warnings),
        )
        task.begin()
        return task

    def _admitted(self, handle: Handle, stepper: Stepper, key: BatchKey) -> Admitted:
        """Once more where the device had no memory for it and some can be given up."""
        admitted = self._tried(handle, stepper, key)
        if isinstance(admitted, EngineError) and admitted.code == "out_of_memory" and self._room.relieve():
            admitted = self._tried(handle, stepper, key)
        if isinstance(admitted, EngineError):
            raise admitted
        return admitted

    def _tried(self, handle: Handle, stepper: Stepper, key: BatchKey) -> Admitted | EngineError:
        try:
            return stepper.admit(handle.request)
        except Exception as error:
            if fault_of(error) is Fault.DEVICE:
                raise
            return self._told(error, key.model, "a request could not begin", size=key.size)

    def _told(self, error: Exception, model: str, words: str, size: str = "") -> EngineError:
        if fault_of(error) is Fault.ROW and not isinstance(error, EngineError):
            _log.exception(words, action="engine.admit_failed", model=model)
        return as_engine_error(error, device=self._device, size=size)

    def _restore(self, handle: Handle, checkpoint: bytes, stepper: Stepper, admitted: Admitted) -> None:
        states = unpack(checkpoint, self._identity(handle))
        if len(states) != len(admitted.rows):
            raise CheckpointError(f"the checkpoint has {len(states)} rows, the request {len(admitted.rows)}")
        for row, state in zip(admitted.rows, states, strict=True):
            stepper.restore(row, state)
