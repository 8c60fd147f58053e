"""Rows in company beside the plain pipeline alone: what the tests of every family compare."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import safetensors.torch
import torch

from actors.engine.arguments import pipeline_arguments
from actors.engine.devices import find_device
from actors.engine.embeds import EmbedCache
from actors.engine.families import family_of
from actors.engine.families.base import LatentRow
from actors.engine.latent import LatentModel
from actors.engine.passes import Eager
from actors.engine.request import RenderRequest
from actors.engine.resuming import row_state
from actors.engine.stepping import RowState
from safelight.config import ModelSettings
from tests.engine.families import tiny

PICTURE = 1 / 255
"""How far a picture may be from the plain pipeline's, in 0…1, in float32."""
LATENTS = 1e-4
"""How far latents may be from the plain pipeline's, beside their largest value, in float32."""

_TEXT_TOKENS = {"flux": 24, "sd3": 24}


def latent_model(
    name: str, pipeline: Any = None, dtype: torch.dtype = torch.float32, device: str = "cpu", **changes: Any
) -> LatentModel:
    """A family's tiny model, or another pipeline of that family that lies on the device, run eagerly."""
    pipeline = tiny.FAMILIES[name]() if pipeline is None else pipeline
    options: dict[str, Any] = {"family": name, "max_sequence_length": _TEXT_TOKENS.get(name)} | changes
    family = family_of(pipeline, ModelSettings(model="tiny", **options), device, dtype)
    assert family is not None
    return LatentModel(
        name="tiny",
        family=family,
        device=find_device(device),
        embeds=EmbedCache(2**24),
        passes=Eager(family.denoiser),
        limits=lambda _: 8,
    )


def ask(**changes: Any) -> RenderRequest:
    """A small request, with changes."""
    arguments: dict[str, Any] = {
        "model": "tiny",
        "prompt": "a red circle left of a blue square",
        "width": 64,
        "height": 48,
        "steps": 4,
        "guidance": 4.3,  # no number of bfloat16
        "seeds": (7,),
    } | changes
    return RenderRequest(**arguments)


def crowd() -> list[RenderRequest]:
    """Requests of one batch key that differ in all that rows of one batch may differ in."""
    return [
        ask(),
        ask(prompt="two big green triangles above a small white circle on the blue background", steps=6, guidance=7.7),
        ask(prompt="fog", steps=3, guidance=2.1, seeds=(8,), negative_prompt="a red square and noise"),
        ask(steps=5, seeds=(9,), negative_prompt=""),
    ]


@torch.no_grad()
def plain(model: LatentModel, request: RenderRequest, output_type: str = "latent") -> Any:
    """What the plain pipeline makes of the request, with the arguments that it is given when it runs whole."""
    pipeline, scheduler = model.family.pipeline, model.family.pipeline.scheduler
    accepted = inspect.signature(pipeline.__call__).parameters
    pipeline.scheduler = copy.deepcopy(scheduler)
    try:
        return pipeline(
            **pipeline_arguments(request, model.family.settings, accepted),
            generator=[torch.Generator("cpu").manual_seed(seed) for seed in request.seeds],
            num_images_per_prompt=len(request.seeds),
            output_type=output_type,
        ).images
    finally:
        pipeline.scheduler = scheduler


def rows_of(model: LatentModel, *requests: RenderRequest) -> list[LatentRow]:
    """The requests' rows, in order."""
    return [cast("LatentRow", row) for request in requests for row in model.admit(request).rows]


def walk(model: LatentModel, rows: Sequence[LatentRow], steps: int | None = None) -> list[LatentRow]:
    """Step all rows together until they are done, or ``steps`` times."""
    while (left := [row for row in rows if not row.done]) and steps != 0:
        model.step(left)
        steps = None if steps is None else steps - 1
    return list(rows)


def far(latents: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, beside the largest value."""
    return float((latents.float() - expected.float()).abs().max() / expected.float().abs().max())


def picture_gap(model: LatentModel, row: LatentRow, expected: np.ndarray[Any, Any]) -> float:
    """The largest difference of the row's picture from an array [height, width, 3] of 0…1, both of 256 levels."""
    [picture] = model.finish(row)
    levels = np.asarray(picture, dtype=np.int16) - (expected * 255).round().astype(np.int16)
    return float(np.abs(levels).max() / 255)


def state_of(row: LatentRow) -> RowState:
    """The row's state, through the bytes that it travels in."""
    make = row_state(row)
    assert make is not None
    state = make()
    tensors = safetensors.torch.load(safetensors.torch.save(dict(state.tensors)))
    return RowState(step=state.step, tensors=tensors, values=json.loads(json.dumps(state.values, allow_nan=False)))
