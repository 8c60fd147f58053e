"""What rendering takes, told without weights and without a device."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import structlog

from actors.engine.devices import choose_dtype
from actors.engine.families import family_of
from actors.engine.latent import Resident
from actors.engine.memory.meters import TrackedPeak
from actors.engine.memory.parts import decoders, largest_linear, module_bytes, weights_of
from actors.engine.memory.plans import Activations, Need
from actors.engine.memory.skeletons import Imagined, fake_twin
from actors.engine.memory.walk import walk
from actors.engine.request import RenderRequest

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

_ALLOWANCE = 0.2  # of the weights, where a pipeline has no adapter to walk through it with


class Estimator:
    """Tells the need of one model at any size and batch. The pipeline may be a skeleton, or real and on the CPU."""

    def __init__(self, pipeline: Any, settings: ModelSettings, device: Device) -> None:
        """``device`` decides the number format, and whether a grouped denoiser is streamed; it isn't used."""
        self._settings = settings
        self._mode = Imagined()
        twin = fake_twin(pipeline, self._mode)
        self._family = family_of(twin, settings, "cpu", choose_dtype(settings, device))
        self._unpacked = 0 if settings.quantize == "none" else largest_linear(pipeline)
        weights = weights_of(pipeline, settings.quantize, streams=device.kind == "cuda")
        vae = sum(module_bytes(module) for module in decoders(twin).values())  # a family may have turned it to float32
        self._weights = dataclasses.replace(weights, vae=vae)

    def need(self, width: int, height: int, batch: int) -> Need:
        """What a batch of so many rows of ``width`` x ``height`` pixels takes."""
        found = self._walk(trial_request(self._settings, width, height), batch)
        if found is None:
            return Need(weights=self._weights, activations=self._allowance(), traced=False)
        found = dataclasses.replace(found, step=found.step + self._unpacked)
        return Need(weights=self._weights, activations=found)

    def _walk(self, request: RenderRequest, batch: int) -> Activations | None:
        if self._family is None:
            return None
        try:
            with self._mode:
                return walk(self._family, request, batch, Resident(), TrackedPeak)
        except Exception as error:  # a model may ask for a value, which a fake tensor has not
            _log.info("need not traced", action="engine.need_not_traced", error=f"{type(error).__name__}: {error}")
            return None

    def _allowance(self) -> Activations:
        step = int(self._weights.denoiser * _ALLOWANCE)
        return Activations(encode=int(self._weights.encoders * _ALLOWANCE), step=step, decode=step)


def trial_request(settings: ModelSettings, width: int, height: int) -> RenderRequest:
    """A request of the usual kind. A short prompt will do: families pad it to the length that they read."""
    return RenderRequest(
        model=settings.identity,
        prompt="a",
        width=width,
        height=height,
        steps=settings.default_steps,
        seeds=(0,),
        guidance=settings.default_guidance,
    )
