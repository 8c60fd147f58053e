"""Who comes in: the policy of groups applied to those that wait, and what must be done before a first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import structlog

from actors.engine.admission import Line
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
        self._clock = clock
        self._keys: dict[Handle, BatchKey] = {}

    def let_in(self) -> None:
        """Everyone that waits, in order: in, or left waiting, or out where it can't be rendered."""
        self._line.prune()
        waiting = self._line.waiting()
        blocked = [handle for handle in waiting if not self._settled(handle)]
        self._keys = {handle: self._keys[handle] for handle in blocked if handle in self._keys}
        if blocked and self._impatient(blocked[0]):
            self._groups.close_oldest()

    def _impatient(self, handle: Handle) -> bool:
        return self._clock() - handle.submitted_at > self._patience_s

    def _settled(self, handle: Handle) -> bool:
        """True where the request no longer waits."""
        try:
            stepper = self._stepper(handle)
            if stepper is None:
                return False
            key = self._key(handle, stepper)
        except EngineError as error:
            self._line.leave(handle, error)
            return True
        group = self._groups.get(key)
        if group is None and self._groups.full:
            return False
        if (group is not None and group.closing) or self._room.room(group, stepper, key) <= 0:
            return False
        self._let_in(handle, stepper, key)
        return True

    def _stepper(self, handle: Handle) -> Stepper | None:
        """The request's model; loaded where nobody is kept from stepping by that, or it has waited long enough."""
        request = handle.request
        stepper = self._models.peek(request)
        if stepper is not None:
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
            error.device_seconds += self._clock() - began
            self._line.leave(handle, error)
            return
        now = self._clock()
        task.device_seconds += now - began
        self._observer.busy(now - began)
        self._room.take_in(task, now)

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
            if fault_of(error) is Fault.ROW and not isinstance(error, EngineError):
                _log.exception("a request could not begin", action="engine.admit_failed", model=key.model)
            return as_engine_error(error, device=self._device, key=key)

    def _restore(self, handle: Handle, checkpoint: bytes, stepper: Stepper, admitted: Admitted) -> None:
        states = unpack(checkpoint, self._identity(handle))
        if len(states) != len(admitted.rows):
            raise CheckpointError(f"the checkpoint has {len(states)} rows, the request {len(admitted.rows)}")
        for row, state in zip(admitted.rows, states, strict=True):
            stepper.restore(row, state)
