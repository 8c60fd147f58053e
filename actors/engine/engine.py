"""The engine: render requests in, pictures out, one thread that owns the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from actors.engine.admission import Admission
from actors.engine.errors import EngineError, EngineStoppedError, OutOfMemoryError
from actors.engine.progress import ImageProgress
from actors.engine.request import NOBODY, Handle, RenderRequest, RenderResult, StepProgress, Watch

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from actors.engine.shelf import Shelf
    from actors.engine.simulated import SimulatedShelf
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long (seconds) the engine's thread may be silent before it counts as hung.

    A model may have to be downloaded first; a step is one pass of the denoiser, or a decode.
    """

    load_s: float = 3600.0
    step_s: float = 300.0


class Engine:
    """Renders requests on one device, one after the other. All methods are safe to call from any thread.

    torch is imported by the engine's thread alone, so that whoever only holds an engine starts fast.
    """

    def __init__(
        self, models: Mapping[str, ModelSettings], device: str = "auto", *, room: int = 2, limits: Limits | None = None
    ) -> None:
        self._models = dict(models)
        self._wanted_device = device
        self._room = room
        self._limits = limits or Limits()
        self._patience = self._limits.load_s
        self._admission = Admission()
        self._ready: Future[Device] = Future()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._warm: Sequence[str] = ()
        self._render_on: Callable[..., RenderResult]
        self._last_progress = time.monotonic()

    def start(self, warm: Sequence[str] = ()) -> None:
        """Start the engine's thread; it loads the models of ``warm`` before its first request."""
        self._warm = warm
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> str:
        """Wait until the device is found and tell its label (``cpu``, ``NVIDIA H200``).

        Raises ModelUnavailableError where there is no such device or no torch, TimeoutError.
        """
        return self._ready.result(timeout).label

    def submit(self, request: RenderRequest, watch: Watch = NOBODY) -> Handle:
        """Take a request in; its handle's future will hold the pictures or one of EngineError's kinds.

        Raises EngineStoppedError.
        """
        handle = Handle(request, watch)
        if not self.busy:
            self._touch()  # an engine that was idle has not been silent
        self._admission.put(handle)
        return handle

    def stop(self, timeout: float = 10.0) -> bool:
        """Take no more requests and stop at the next step boundary; what isn't done fails with EngineStoppedError.

        Returns False where the thread still hangs after ``timeout`` seconds.
        """
        self._admission.close()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """True while the engine's thread runs."""
        return self._thread.is_alive()

    @property
    def busy(self) -> bool:
        """True while a request waits or is rendered."""
        return self._admission.busy

    @property
    def last_progress(self) -> float:
        """The instant (``time.monotonic()``, seconds) at which the engine's thread last got on with something."""
        return self._last_progress

    @property
    def hung(self) -> bool:
        """True while the engine has work and its thread has been silent for longer than its limits allow."""
        return self.busy and time.monotonic() - self._last_progress > self._patience

    @property
    def healthy(self) -> bool:
        """True while the engine can be trusted to get its work done."""
        return self.alive and not self.hung

    def _run(self) -> None:
        try:
            shelf = self._set_up()
            while (handle := self._admission.take()) is not None:
                self._touch()
                self._admission.leave(handle, self._outcome(handle, shelf))
                self._touch()
            shelf.clear()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            _log.exception("the engine's thread died", action="engine.died")
        finally:
            self._admission.abandon(EngineStoppedError("the engine stopped before the pictures were done"))

    def _set_up(self) -> Shelf | SimulatedShelf:
        from actors.engine.devices import find_device

        device = find_device(self._wanted_device)
        shelf, self._render_on = self._hardware(device)
        self._ready.set_result(device)
        _log.info("engine ready", action="engine.ready", device=device.place, label=device.label)
        for name in self._warm:
            self._touch()
            self._warm_up(name, shelf)
        return shelf

    def _hardware(self, device: Device) -> tuple[Shelf | SimulatedShelf, Callable[..., RenderResult]]:
        """Where the models are kept, and what renders with them."""
        from actors.engine.devices import SIMULATED

        if device.kind == SIMULATED:
            from actors.engine import simulated

            pace = simulated.parse_pace(self._wanted_device)
            return simulated.SimulatedShelf(self._models, device, pace, self._room), simulated.render
        from actors.engine import shelf, static

        return shelf.Shelf(self._models, device, self._room), static.render

    def _warm_up(self, name: str, shelf: Shelf | SimulatedShelf) -> None:
        try:
            shelf.get(name)
        except EngineError as error:
            _log.warning("model not warmed", action="engine.warm_failed", model=name, error=str(error))

    def _outcome(self, handle: Handle, shelf: Shelf | SimulatedShelf) -> RenderResult | EngineError:
        try:
            return self._render(handle, shelf)
        except EngineError as error:
            return error
        except Exception as error:
            _log.exception("render failed", action="engine.render_failed", model=handle.request.model)
            return EngineError(f"the render failed: {type(error).__name__}")

    def _render(self, handle: Handle, shelf: Shelf | SimulatedShelf) -> RenderResult:
        request = handle.request
        self._patience = self._limits.load_s
        model = shelf.get(request.model)
        self._patience = self._limits.step_s
        self._touch()

        def checkpoint() -> EngineError | None:
            self._touch()
            self._admission.prune()
            return self._admission.reason_to_stop(handle)

        progress = ImageProgress(len(request.seeds), request.steps, lambda step: _tell(handle, step))
        try:
            return self._render_on(request, model, checkpoint, progress)
        except OutOfMemoryError:
            if not shelf.others(request.model):
                raise
        # Outside the except block, whose traceback would keep the tensors of the failed render alive.
        shelf.keep_only(request.model)
        progress.restart()
        return self._render_on(request, model, checkpoint, progress)

    def _touch(self) -> None:
        self._last_progress = time.monotonic()


def _tell(handle: Handle, progress: StepProgress) -> None:
    if handle.watch.on_progress is None:
        return
    try:
        handle.watch.on_progress(progress)
    except Exception:  # a listener's fault must not cost the render
        _log.exception("progress listener failed", action="engine.listener_failed")
