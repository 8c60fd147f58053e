"""Builds a served model: loads the pipeline, and puts the family, the passes and the caches around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.engine.devices import Device, choose_dtype
from actors.engine.embeds import EmbedCache
from actors.engine.families import family_of
from actors.engine.latent import Eager, LatentModel
from actors.engine.loading import load_pipeline
from actors.engine.observer import Observer
from actors.engine.served import ServedModel
from actors.engine.whole import WholeModel

if TYPE_CHECKING:
    from typing import Any

    from actors.engine.stepping import BatchKey
    from safelight.config import EngineSettings, ModelSettings

_MB = 1_000_000


class Builder:
    """Makes served models that share one cache of embeds."""

    def __init__(self, device: Device, settings: EngineSettings, observer: Observer) -> None:
        self._device = device
        self._settings = settings
        self._observer = observer
        self._embeds = EmbedCache(settings.embed_cache_mb * _MB)

    def build(self, name: str, model: ModelSettings) -> ServedModel:
        """Load a model. Raises ModelUnavailableError, OutOfMemoryError."""
        pipeline = load_pipeline(model, self._device)

        def whole(pipeline: Any) -> WholeModel:
            return WholeModel(name, pipeline, model, self._device)

        return ServedModel(whole(pipeline), self._stepping(name, model, pipeline), whole)

    def relieve(self) -> bool:
        """Give up the embeds; False where there are none."""
        held = self._embeds.size_bytes > 0
        self._embeds.clear()
        return held

    def _stepping(self, name: str, model: ModelSettings, pipeline: Any) -> LatentModel | None:
        family = family_of(pipeline, model, self._device.place, choose_dtype(model, self._device))
        if family is None:
            return None
        most = model.max_batch or self._settings.max_batch

        def limit(_key: BatchKey) -> int:
            return most

        return LatentModel(
            name=name,
            family=family,
            device=self._device,
            embeds=self._embeds,
            passes=Eager(family.denoiser),
            limits=limit,
            observer=self._observer,
        )
