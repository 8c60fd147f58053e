"""The models that are loaded: a few at a time, the one not used for longest makes room."""

from __future__ import annotations

import copy
import inspect
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from actors.engine.devices import Device, free_memory
from actors.engine.errors import ModelUnavailableError, OutOfMemoryError
from actors.engine.loading import load_pipeline

if TYPE_CHECKING:
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class LoadedModel:
    """A pipeline on its device, and its scheduler as it was before the first request."""

    settings: ModelSettings
    pipeline: Any
    device: Device
    accepted: frozenset[str] = field(init=False)
    _scheduler: Any = field(init=False)

    def __post_init__(self) -> None:
        """Note what the pipeline's ``__call__`` takes."""
        self.accepted = frozenset(inspect.signature(self.pipeline.__call__).parameters)
        self._scheduler = copy.deepcopy(self.pipeline.scheduler)

    def renew_scheduler(self) -> None:
        """Give the pipeline a scheduler without history: no request sees what one before it left behind."""
        self.pipeline.scheduler = copy.deepcopy(self._scheduler)


class Shelf:
    """Loaded models by name, at most ``room`` of them. Belongs to the engine's thread."""

    def __init__(self, models: Mapping[str, ModelSettings], device: Device, room: int = 2) -> None:
        self._models = models
        self._device = device
        self._room = room
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()

    def get(self, name: str) -> LoadedModel:
        """The model, loaded if need be. Raises ModelUnavailableError, OutOfMemoryError."""
        if name in self._loaded:
            self._loaded.move_to_end(name)
            return self._loaded[name]
        settings = self._models.get(name)
        if settings is None:
            raise ModelUnavailableError(f"model {name!r} is not served here; known are {', '.join(self._models)}")
        while len(self._loaded) >= self._room:
            self._drop_oldest()
        self._loaded[name] = self._load(name, settings)
        return self._loaded[name]

    def others(self, name: str) -> bool:
        """True when models besides ``name`` are loaded."""
        return any(loaded != name for loaded in self._loaded)

    def keep_only(self, name: str) -> None:
        """Let go of all models but ``name``, to make room for its render."""
        self._loaded.move_to_end(name)
        while len(self._loaded) > 1:
            self._drop_oldest()

    def clear(self) -> None:
        """Let go of all models."""
        self._loaded.clear()
        free_memory(self._device)

    def _load(self, name: str, settings: ModelSettings) -> LoadedModel:
        started = time.monotonic()
        try:
            pipeline = load_pipeline(settings, self._device)
        except OutOfMemoryError:
            if not self._loaded:
                raise
            pipeline = None
        if pipeline is None:  # outside the except block, whose traceback would keep the half-loaded model alive
            while self._loaded:
                self._drop_oldest()
            pipeline = load_pipeline(settings, self._device)
        _log.info(
            "model loaded",
            action="engine.model_loaded",
            model=name,
            revision=settings.revision,
            device=self._device.place,
            seconds=round(time.monotonic() - started, 3),
        )
        return LoadedModel(settings, pipeline, self._device)

    def _drop_oldest(self) -> None:
        name, _ = self._loaded.popitem(last=False)
        free_memory(self._device)
        _log.info("model let go", action="engine.model_dropped", model=name)
