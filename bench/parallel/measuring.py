"""Times the steps of a loaded model, spread or not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import torch

from actors.engine.building import Builder
from actors.engine.compiled.measuring import synthetic_rows
from actors.engine.devices import Device
from actors.engine.errors import EngineError
from actors.engine.latent import LatentModel
from actors.engine.memory.parts import module_bytes
from actors.engine.observer import Unobserved
from actors.engine.parallel.passes import RankPasses
from actors.engine.request import RenderRequest
from safelight.config import EngineSettings, ModelSettings

_WARM = 2  # steps that are not timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A plan's median step, and bytes of each rank; ``failed`` says why there is none."""

    plan: str
    ranks: int
    step_ms: float = 0.0
    weights: tuple[int, ...] = ()
    peaks: tuple[int, ...] = ()
    failed: str = ""


def measure(model: ModelSettings, device: Device, rows: int, steps: int) -> Measured:
    """Load the model, step rows that nobody asked for, and let it go."""
    label, ranks = ("one device", 1) if model.parallel is None else (model.parallel.kind, model.parallel.ranks)
    builder = Builder(device, EngineSettings(max_batch=rows, knee="off"), Unobserved())
    try:
        served = builder.build("bench", model)
    except EngineError as error:
        return Measured(plan=label, ranks=ranks, failed=str(error))
    try:
        stepping = served.stepping
        if stepping is None:
            return Measured(plan=label, ranks=ranks, failed="it is rendered whole, and has no steps of its own")
        step_ms = _step_ms(stepping, model, rows, steps)
        weights, peaks = _memory(stepping)
    finally:
        served.close()
    return Measured(plan=label, ranks=ranks, step_ms=step_ms, weights=weights, peaks=peaks)


def _step_ms(stepping: LatentModel, model: ModelSettings, count: int, steps: int) -> float:
    width, height = (int(side) for side in model.usual_size.split("x"))
    request = RenderRequest(
        model="bench",
        prompt="",
        width=width,
        height=height,
        steps=_WARM + steps,
        guidance=model.default_guidance,
        seeds=(0,),
    )
    rows = synthetic_rows(stepping, request, count)
    took = []
    for _ in range(_WARM + steps):
        began = time.perf_counter()
        stepping.step(rows)
        if stepping.device.kind == "cuda":
            torch.cuda.synchronize(stepping.device.place)
        took.append(time.perf_counter() - began)
    return 1e3 * median(took[_WARM:])


def _memory(stepping: LatentModel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bytes of weights, and at most, of each rank; of one device its denoiser, and no peak where torch counts none."""
    if isinstance(stepping.passes, RankPasses):
        return stepping.passes.ranks.weights, stepping.passes.ranks.peaks
    peak = (torch.cuda.max_memory_allocated(stepping.device.place),) if stepping.device.kind == "cuda" else ()
    return (module_bytes(stepping.family.denoiser),), peak
