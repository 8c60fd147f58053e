"""The models that are loaded: a few at a time, the one not used for longest makes room."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from actors.engine.building import Builder
from actors.engine.devices import Device, free_memory
from actors.engine.errors import ModelUnavailableError, OutOfMemoryError
from actors.engine.served import ServedModel
from actors.engine.stepping import Stepper

if TYPE_CHECKING:
    from actors.engine.request import RenderRequest
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)


class Shelf:
    """Loaded models by name, at most ``room`` of them (``loop.Models``). Belongs to the engine's thread."""

    def __init__(self, models: Mapping[str, ModelSettings], device: Device, builder: Builder, room: int) -> None:
        self._models = models
        self._device = device
        self._builder = builder
        self._room = room
        self._loaded: OrderedDict[str, ServedModel] = OrderedDict()

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
        while len(self._loaded) >= self._room and self._drop_oldest(in_use):
            pass
        started = time.monotonic()
        served = self._tried(name)
        while served is None:  # outside an except block, whose traceback would keep the half-loaded model alive
            if not self._drop_oldest(in_use):
                raise OutOfMemoryError(f"model {name!r} does not fit into {self._device.label}'s memory")
            served = self._tried(name)
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

    def _tried(self, name: str) -> ServedModel | None:
        """The model; None where the device has not enough memory for it."""
        try:
            return self._builder.build(name, self._models[name])
        except OutOfMemoryError:
            free_memory(self._device)
            return None

    def _drop_oldest(self, in_use: set[str]) -> bool:
        name = next((name for name in self._loaded if name not in in_use), None)
        if name is None:
            return False
        self._loaded.pop(name).close()
        free_memory(self._device)
        _log.info("model let go", action="engine.model_dropped", model=name)
        return True
