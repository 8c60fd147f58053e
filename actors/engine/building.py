"""Builds a served model: loads the pipeline, and puts the family, the passes and the caches around it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from actors.engine.adapters import LoraAdapters, make_adapters
from actors.engine.batch_sizes import BatchSizes
from actors.engine.compiled.choosing import make_passes
from actors.engine.compiled.measuring import warm_up
from actors.engine.devices import Device, choose_dtype, free_memory, is_device_lost
from actors.engine.embeds import EmbedCache
from actors.engine.errors import EngineError
from actors.engine.families import family_of
from actors.engine.latent import LatentModel
from actors.engine.loading import Loaded, load_placed
from actors.engine.observer import Observer
from actors.engine.request import RenderRequest
from actors.engine.served import ServedModel
from actors.engine.whole import WholeModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from actors.engine.compiled.knee import Knee, Timing
    from actors.engine.passes import Passes
    from safelight.config import EngineSettings, ModelSettings, ParallelSettings

_log = structlog.get_logger(__name__)

_MB = 1_000_000


class Builder:
    """Makes served models that share one cache of embeds. Belongs to the engine's thread."""

    def __init__(
        self,
        device: Device,
        settings: EngineSettings,
        observer: Observer,
        knees: Path | None = None,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """``knees`` is the file of measured batch sizes; None keeps none.

        ``on_progress`` is called now and then while a model's ranks load or compute (parallel/).
        """
        self._on_progress = on_progress
        self._device = device
        self._settings = settings
        self._observer = observer
        self._embeds = EmbedCache(settings.embed_cache_mb * _MB)
        self._sizes = BatchSizes(settings, device, knees)

    def build(self, name: str, model: ModelSettings) -> ServedModel:
        """Load a model. Raises ModelUnavailableError, OutOfMemoryError."""
        if model.parallel is not None:
            return self._build_spread(name, model, model.parallel)
        loaded = load_placed(model, self._settings, self._device)
        adapters = make_adapters(loaded.pipeline, model) if model.adapters else None
        if adapters is not None:
            adapters.fetch()

        def whole(pipeline: Any) -> WholeModel:
            return WholeModel(name, pipeline, model, self._device, loaded.places, adapters)

        stepping = self._stepping(name, model, loaded, adapters)
        return ServedModel(whole(loaded.pipeline), stepping, whole, loaded.release)

    def _build_spread(self, name: str, model: ModelSettings, parallel: ParallelSettings) -> ServedModel:
        """A model whose denoiser lies in processes of its own."""
        from actors.engine.parallel.building import spread

        there = spread(name, model, parallel, self._settings, self._device, self._on_progress)
        try:
            loaded = load_placed(model, self._settings, self._device, there.parts)

            def whole(pipeline: Any) -> WholeModel:
                return WholeModel(name, pipeline, model, self._device, loaded.places, None)

            def release() -> None:
                loaded.release()
                there.ranks.close()

            stepping = self._stepping(name, model, loaded, None, there.passes)
            return ServedModel(whole(loaded.pipeline), stepping, whole, release)
        except BaseException:
            there.ranks.close()
            raise

    def measure(self, name: str, model: ModelSettings, on_measure: Callable[[Timing], None]) -> tuple[Knee, str] | None:
        """Load a model and measure the knee of its usual size, and how its passes are run.

        None where it is rendered whole, or where not even one row fits into memory. Raises ModelUnavailableError,
        OutOfMemoryError.
        """
        served = self.build(name, model)
        stepping = served.stepping
        if stepping is None:
            return None
        most = model.max_batch or self._settings.max_batch
        knee = self._sizes.measure(stepping, _usual_request(stepping), most, on_measure)
        mode = stepping.passes.mode
        served.close()
        return None if knee is None else (knee, mode)

    def relieve(self) -> bool:
        """Give up the embeds; False where there are none."""
        held = self._embeds.size_bytes > 0
        self._embeds.clear()
        return held

    def _stepping(
        self,
        name: str,
        model: ModelSettings,
        loaded: Loaded,
        adapters: LoraAdapters | None,
        passes: Passes | None = None,
    ) -> LatentModel | None:
        family = family_of(loaded.pipeline, model, self._device.place, choose_dtype(model, self._device))
        if family is None:
            return None
        most = model.max_batch or self._settings.max_batch
        passes = passes or make_passes(
            family.denoiser,
            self._device,
            self._settings,
            self._observer,
            name,
            max_batch=most,
            use=None if adapters is None else adapters.use,
            streamed=not loaded.graphs_allowed,
        )
        if adapters is not None:
            adapters.before_leaving = passes.release  # a graph must not outlive the factors it reads
        stepping = LatentModel(
            name=name,
            family=family,
            device=self._device,
            embeds=self._embeds,
            passes=passes,
            limits=self._sizes.limits(family, passes, most),
            places=loaded.places,
            adapters=adapters,
            observer=self._observer,
        )
        self._get_ready(stepping, most)
        return stepping

    def _get_ready(self, stepping: LatentModel, most: int) -> None:
        """Compile, capture and measure for the model's usual size, before the first request.

        Where that fails the model serves without: slower at first, and in batches of any size. Raises what a lost
        device raises.
        """
        if self._warmed(stepping, most):
            return
        # Outside the except block, whose traceback would keep the tensors of the failed pass alive.
        stepping.passes.release()
        free_memory(self._device)

    def _warmed(self, stepping: LatentModel, most: int) -> bool:
        try:
            request = _usual_request(stepping)
            if stepping.passes.mode != "eager":
                warm_up(stepping, stepping.passes, request)
            self._sizes.get_ready(stepping, request, most)
        except Exception as error:
            if is_device_lost(error):
                raise
            words = str(error) if isinstance(error, EngineError) else type(error).__name__
            _log.warning("model not warmed", action="engine.warm_failed", model=stepping.name, error=words)
            return False
        return True


def _usual_request(stepping: LatentModel) -> RenderRequest:
    model = stepping.family.settings
    width, height = (int(side) for side in model.usual_size.split("x"))
    return RenderRequest(
        model=stepping.name,
        prompt="",
        width=width,
        height=height,
        steps=model.default_steps,
        guidance=model.default_guidance,
        seeds=(0,),
    )
