"""Milliseconds of a step of the engine's: eager, compiled, from CUDA graphs; and of the plain diffusers pipeline's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch

from actors.engine.compiled.capture import CudaCapture
from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.regional import Regional
from actors.engine.devices import Device
from actors.engine.embeds import EmbedCache
from actors.engine.families.base import Family, LatentRow
from actors.engine.latent import LatentModel
from actors.engine.observer import GraphEvent, Unobserved
from actors.engine.passes import Eager, Passes
from bench.gpu.architectures import Architecture
from bench.gpu.timing import milliseconds

How = Literal["diffusers", "eager", "compiled", "graphed"]

_GRAPH_BYTES = 32_000_000_000
_MOST_ROWS = 8


class Replays(Unobserved):
    """Counts replays of graphs."""

    def __init__(self) -> None:
        self.count = 0

    def graph(self, model: str, event: GraphEvent) -> None:  # noqa: ARG002
        """Count it, if it is one."""
        self.count += event == "replay"


class Bench:
    """One architecture on one device, and steps of it."""

    def __init__(self, architecture: Architecture, device: Device, dtype: torch.dtype, *, compiled: bool) -> None:
        """Draws the weights. ``compiled``: graphs are captured of compiled code."""
        self._architecture = architecture
        self._device = device
        self._pipeline = architecture.pipeline(device.place, dtype)
        self.family: Family = architecture.family(self._pipeline, device.place, dtype)
        self._compiled = compiled

    @contextmanager
    def step(self, how: How, side: int, batch: int) -> Iterator[Callable[[], object]]:
        """A call that does one step of ``batch`` rows, ready to be timed."""
        rows = self._architecture.rows(self.family, side, batch)
        with self._passes(how, rows) as passes:
            model = LatentModel(
                name=self._architecture.name,
                family=self.family,
                device=self._device,
                embeds=EmbedCache(0),
                passes=passes,
                limits=lambda _key: batch,
            )

            def step() -> object:
                return model.step(rows)

            step()
            while passes.idle():
                pass
            yield step

    def time(self, how: How, side: int, batch: int, *, rounds: int, calls: int) -> float:
        """Milliseconds of a step."""
        if how == "diffusers":
            return self._time_diffusers(side, batch, rounds * calls)
        with self.step(how, side, batch) as step:
            return milliseconds(step, self._device.place, rounds=rounds, calls=calls)

    @contextmanager
    def _passes(self, how: How, rows: Sequence[LatentRow]) -> Iterator[Passes]:
        """Passes of that kind. Raises RuntimeError at the end where they were not: compiling may have failed."""
        denoiser, replays = self.family.denoiser, Replays()
        regional = Regional(denoiser, "bench") if how == "compiled" or (how == "graphed" and self._compiled) else None
        passes: Passes = regional or Eager(denoiser)
        if how == "graphed":
            passes = GraphedPasses(
                denoiser=denoiser,
                otherwise=passes,
                capture=CudaCapture(self._device.place),
                device=torch.device(self._device.place),
                model="bench",
                observer=replays,
                limit_bytes=_GRAPH_BYTES,
                max_batch=max(_MOST_ROWS, len(rows)),
            )
        try:
            yield passes
            if (regional is not None and regional.mode == "eager") or (how == "graphed" and not replays.count):
                raise RuntimeError(f"no {how} pass was to be had here")
        finally:
            passes.release()
            if regional is not None:
                regional.undo()

    def _time_diffusers(self, side: int, batch: int, steps: int) -> float:
        """The mean over the pipeline's own loop, between its callbacks: without its set-up and the first step."""
        embeds = self._architecture.embeds(self._device.place, self.family.dtype)
        arguments: dict[str, Any] = {
            "prompt_embeds": embeds["prompt"].repeat(batch, 1, 1),
            "pooled_prompt_embeds": embeds["pooled"].repeat(batch, 1),
        }
        if self._architecture.kind == "sdxl":
            arguments |= {f"negative_{name}": torch.zeros_like(tensor) for name, tensor in arguments.items()}
        ends: list[float] = []

        def ended(_pipeline: Any, _step: int, _timestep: Any, values: dict[str, Any]) -> dict[str, Any]:
            if len(ends) in {0, steps}:  # otherwise nothing waits for the device, as in a plain render
                values["latents"].sum().item()
            ends.append(time.perf_counter())
            return values

        self._pipeline(
            height=side,
            width=side,
            num_inference_steps=steps + 1,
            guidance_scale=self._architecture.guidance,
            output_type="latent",
            callback_on_step_end=ended,
            **arguments,
        )
        return 1000 * (ends[-1] - ends[0]) / steps
