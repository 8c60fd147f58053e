"""The models that are loaded: a few at a time, the one not used for longest makes room."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from actors.engine.building import Builder
from actors.engine.devices import Device, free_memory, is_device_lost, is_out_of_memory
from actors.engine.errors import EngineError, ModelUnavailableError, OutOfMemoryError
from actors.engine.served import ServedModel
from actors.engine.stepping import Stepper

if TYPE_CHECKING:
    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

_FORGET_S = 10.0  # about as long as it takes to mend a model's folder, and shorter than a job's tries


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a model could not be loaded, and when that was."""

    kind: type[EngineError]
    words: str
    at: float

    def error(self) -> EngineError:
        """The error anew: each request's holds what the device spent on it."""
        return self.kind(self.words)


class Shelf:
    """Loaded models by name, at most ``room`` of them (``loop.Models``). Belongs to the engine's thread.

    One that can't be loaded is not tried again for some seconds: whoever waits for it fails with the same error.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        device: Device,
        builder: Builder,
        room: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._device = device
        self._builder = builder
        self._room = room
        self._clock = clock
        self._loaded: OrderedDict[str, ServedModel] = OrderedDict()
        self._failed: dict[str, _Failure] = {}

    @property
    def loaded(self) -> tuple[str, ...]:
        """The models that are loaded, the one used last at the end. From any thread."""
        return tuple(self._loaded.copy())

    def peek(self, request: RenderRequest) -> Stepper | None:
        """What renders the request, if its model is loaded. Raises ModelUnavailableError, InvalidRequestError."""
        if request.model not in self._models:
            known = ", ".join(self._models)
            raise ModelUnavailableError(f"model {request.model!r} is not served here; known are {known}")
        served = self._loaded.get(request.model)
        if served is None:
            return None
        self._loaded.move_to_end(request.model)
        return served.stepper(request)

    def can_load(self, name: str, in_use: set[str]) -> bool:
        """Whether there is room for one more once models that are not in use are let go."""
        return len(in_use - {name}) < self._room

    def load(self, name: str, in_use: set[str]) -> None:
        """Load the model, and let go of others for it. Raises ModelUnavailableError, OutOfMemoryError."""
        failure = self._failed.get(name)
        if failure is not None and self._clock() - failure.at < _FORGET_S:
            raise failure.error()
        if failure is None:  # one that failed before must show that it can be loaded before another goes for it
            self._make_room(self._room - 1, in_use)
        started = time.monotonic()
        served = self._tried(name)
        while isinstance(served, OutOfMemoryError) and self._drop_oldest(in_use):
            served = self._tried(name)
        if isinstance(served, EngineError):
            self._failed[name] = _Failure(type(served), str(served), self._clock())
            raise served
        self._failed.pop(name, None)
        self._make_room(self._room - 1, in_use)
        self._loaded[name] = served
        _log.info(
            "model loaded",
            action="engine.model_loaded",
            model=name,
            revision=self._models[name].revision,
            device=self._device.place,
            seconds=round(time.monotonic() - started, 3),
        )

    def relieve(self, in_use: set[str]) -> bool:
        """Give up caches and models that are not in use; False where there is nothing to give up."""
        given = self._builder.relieve()
        for served in self._loaded.values():
            given = (served.stepping is not None and served.stepping.passes.release()) or given
        while self._drop_oldest(in_use):
            given = True
        free_memory(self._device)
        return given

    def idle(self) -> bool:
        """Compile or capture a piece of what is wanted; False where there is nothing."""
        return any(served.stepping is not None and served.stepping.passes.idle() for served in self._loaded.values())

    def clear(self) -> None:
        """Let go of all models."""
        while self._drop_oldest(set()):
            pass
        free_memory(self._device)

    def _tried(self, name: str) -> ServedModel | EngineError:
        """The model, or why it can't be had. Raises what a lost device raises.

        The error is a new one: the traceback of what was raised would keep the half-loaded model alive.
        """
        served: ServedModel | EngineError
        try:
            return self._builder.build(name, self._models[name])
        except Exception as error:
            if is_device_lost(error):
                raise
            if is_out_of_memory(error) or isinstance(error, OutOfMemoryError):
                served = OutOfMemoryError(f"model {name!r} does not fit into {self._device.label}'s memory")
            elif isinstance(error, EngineError):
                served = type(error)(str(error))
            else:
                _log.exception("a model could not be built", action="engine.build_failed", model=name)
                served = ModelUnavailableError(f"model {name!r} can't be loaded: {type(error).__name__}")
        free_memory(self._device)
        return served

    def _make_room(self, most: int, in_use: set[str]) -> None:
        while len(self._loaded) > most and self._drop_oldest(in_use):
            pass

    def _drop_oldest(self, in_use: set[str]) -> bool:
        name = next((name for name in self._loaded if name not in in_use), None)
        if name is None:
            return False
        self._loaded.pop(name).close()
        free_memory(self._device)
        _log.info("model let go", action="engine.model_dropped", model=name)
        return True
