"""Warms a loaded model and measures its knee, with rows that nobody asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import torch

from actors.engine.compiled.knee import Knee, Timing, find_knee
from actors.engine.devices import Device, free_memory, is_out_of_memory
from actors.engine.families.base import LatentRow
from actors.engine.latent import LatentModel
from actors.engine.request import RenderRequest

if TYPE_CHECKING:
    from actors.engine.passes import Passes

_STEPS = 50  # of a row: more than are measured
_REPEATS = 3


def measure_knee(
    model: LatentModel,
    request: RenderRequest,
    most: int,
    on_measure: Callable[[Timing], None] = lambda _: None,
) -> Knee | None:
    """The knee of a model for requests like this one, with its table; None where not even one row fits.

    Runs on the engine's thread while nothing else does, and takes some tens of steps. The steps are those of renders,
    but for decoding: the model's passes and samplers, whatever they are.
    """
    return find_knee(lambda rows: _time_step(model, request, rows), most, on_measure)


def warm_up(model: LatentModel, passes: Passes, request: RenderRequest) -> None:
    """Get a model's passes ready for requests like this one, in batches of up to the model's limit."""
    rows = synthetic_rows(model, request, 1)
    key = rows[0].key
    for inputs in model.family.inputs(rows):
        passes.warm(inputs, key, model.limit(key))


def synthetic_rows(model: LatentModel, request: RenderRequest, count: int) -> list[LatentRow]:
    """So many rows like the request's, of seeds 0, 1, 2 …, at their first step."""
    asked = replace(request, seeds=tuple(range(count)), steps=max(request.steps, _STEPS), checkpoint=None)
    return [row for row in model.admit(asked).rows if isinstance(row, LatentRow)]


def _time_step(model: LatentModel, request: RenderRequest, rows: int) -> float | None:
    """The median seconds of a step, after one that compiles and allocates; None where memory runs out."""
    try:
        return _timed(model, synthetic_rows(model, request, rows))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    # Outside the except block, whose traceback would keep the step's tensors alive.
    free_memory(model.device)
    return None


def _timed(model: LatentModel, rows: Sequence[LatentRow]) -> float:
    model.step(rows)
    while model.passes.idle():  # what such passes get once they are used to it is what counts
        pass
    seconds = []
    for _ in range(_REPEATS):
        _settle(model.device)
        begin = time.perf_counter()
        model.step(rows)
        _settle(model.device)
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def _settle(device: Device) -> None:
    """Wait until the engine's stream has done its work."""
    if device.kind == "cuda":
        torch.cuda.current_stream(device.place).synchronize()
    elif device.kind == "mps":
        torch.mps.synchronize()
