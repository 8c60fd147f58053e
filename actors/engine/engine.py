"""The engine: render requests in, pictures out, one thread that owns the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from actors.engine.admission import Line
from actors.engine.checkpoints import identity_of
from actors.engine.developing import AtOnce, Developer
from actors.engine.errors import EngineError, EngineStoppedError
from actors.engine.loop import Loop, Models
from actors.engine.observer import Observer, Unobserved
from actors.engine.request import NOBODY, Handle, RenderRequest, Watch
from safelight.config import EngineSettings

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

_IDLE_S = 1.0  # how often an idle engine looks for late requests


@dataclass(frozen=True, slots=True)
class Limits:
    """How long (seconds) the engine's thread may be silent before it counts as hung.

    A model may have to be downloaded first; a step is one pass of the denoiser, or a decode.
    """

    load_s: float = 3600.0
    step_s: float = 300.0


class Engine:
    """Renders requests on one device; those that fit together share its steps. All methods are safe from any thread.

    torch is imported by the engine's thread alone, so that whoever only holds an engine starts fast.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        device: str = "auto",
        *,
        settings: EngineSettings | None = None,
        observer: Observer | None = None,
        limits: Limits | None = None,
        knees: Path | None = None,
    ) -> None:
        """``knees`` is the file that measured batch sizes are kept in."""
        self._models = dict(models)
        self._wanted_device = device
        self._settings = settings or EngineSettings()
        self._observer = observer or Unobserved()
        self._limits = limits or Limits()
        self._knees = knees
        self._patience = self._limits.load_s
        self._line = Line()
        self._ready: Future[Device] = Future()
        self._developer: Developer | None = None
        self._shelf: Models | None = None
        self._turned: Loop | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._warm: Sequence[str] = ()
        self._last_progress = time.monotonic()

    def start(self, warm: Sequence[str] = ()) -> None:
        """Start the engine's threads; the models of ``warm`` are loaded before the first request."""
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
        self._line.put(handle)
        return handle

    def stop(self, timeout: float = 10.0) -> bool:
        """Take no more requests and stop at the next step boundary; what isn't done fails with EngineStoppedError.

        Returns False where the threads still hang after ``timeout`` seconds.
        """
        self._line.close()
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
        return self._line.busy

    @property
    def loaded(self) -> tuple[str, ...]:
        """The models that are loaded, the one used last at the end."""
        return () if self._shelf is None else self._shelf.loaded

    @property
    def busy_seconds(self) -> float:
        """How long the device has worked so far."""
        return 0.0 if self._turned is None else self._turned.busy_seconds

    @property
    def last_progress(self) -> float:
        """The instant (``time.monotonic()``, seconds) at which the engine's threads last got on with something."""
        return self._last_progress

    @property
    def hung(self) -> bool:
        """True while the engine has work and one of its threads has been silent for longer than its limits allow."""
        if not self.busy:
            return False
        silent = time.monotonic() - self._last_progress > self._patience
        return silent or (self._developer is not None and self._developer.working_s > self._limits.step_s)

    @property
    def healthy(self) -> bool:
        """True while the engine can be trusted to get its work done."""
        developing = self._developer is None or self._developer.alive
        return self.alive and developing and not self._ended and not self.hung

    def _run(self) -> None:
        try:
            device, models, developer = self._set_up()
            self._turned = self._loop(device, models, developer)
            self._work(self._turned, models)
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            _log.exception("the engine's thread died", action="engine.died")
        finally:
            self._ended = True
            self._line.close()
            if self._developer is not None:
                self._developer.stop(self._limits.step_s)
            self._line.abandon(EngineStoppedError("the engine stopped before the pictures were done"))

    def _work(self, loop: Loop, models: Models) -> None:
        while not self._line.closed:
            if loop.turn():
                self._touch()
            elif not models.idle():
                self._line.wait(_IDLE_S)
        loop.turn()  # lets go of what is inside
        models.clear()

    def _set_up(self) -> tuple[Device, Models, Developer]:
        from actors.engine.devices import find_device

        device = find_device(self._wanted_device)
        models = self._shelf = self._hardware(device)
        self._developer = self._make_developer(device)
        self._developer.start()
        self._ready.set_result(device)
        _log.info("engine ready", action="engine.ready", device=device.place, label=device.label)
        for name in self._warm:
            if not self._line.closed:
                self._touch()
                self._warm_up(name, models)
        return device, models, self._developer

    def _make_developer(self, device: Device) -> Developer:
        if device.kind == "cpu":
            return AtOnce(on_progress=self._touch)
        return Developer(2 * self._settings.max_batch, self._developed)

    def _developed(self) -> None:
        """A piece of work beside the loop is done: a model may be free to be let go."""
        self._touch()
        self._line.wake()

    def _loop(self, device: Device, models: Models, developer: Developer) -> Loop:
        from actors.engine.marks import marks_of

        return Loop(
            self._line,
            models,
            developer,
            marks_of(device),
            self._settings,
            self._observer,
            device=device.label,
            identity=lambda handle: identity_of(handle.request, self._models[handle.request.model]),
            loading=self._loading,
        )

    def _hardware(self, device: Device) -> Models:
        """The models, as the device renders them."""
        from actors.engine.devices import SIMULATED

        if device.kind == SIMULATED:
            from actors.engine import simulated

            pace = simulated.parse_pace(self._wanted_device)
            return simulated.SimulatedModels(self._models, device, pace, self._settings, draw=simulated.draw)
        from actors.engine.building import Builder
        from actors.engine.shelf import Shelf

        builder = Builder(device, self._settings, self._observer, self._knees, self._touch)
        return Shelf(self._models, device, builder, self._settings.loaded_models)

    def _warm_up(self, name: str, models: Models) -> None:
        try:
            with self._loading():
                models.load(name, set())
        except EngineError as error:
            _log.warning("model not warmed", action="engine.warm_failed", model=name, error=str(error))

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """While a model loads, silence means less."""
        self._patience = self._limits.load_s
        try:
            yield
        finally:
            self._patience = self._limits.step_s
            self._touch()

    def _touch(self) -> None:
        self._last_progress = time.monotonic()
