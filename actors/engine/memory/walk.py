"""One text encoded, one step of a batch, one row decoded: what each takes beside the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from actors.engine.families.base import LatentRow
from actors.engine.memory.plans import Activations
from actors.engine.sampling import Sampler, own_scheduler

if TYPE_CHECKING:
    from actors.engine.embeds import Embeds
    from actors.engine.families.base import Family
    from actors.engine.latent import Places
    from actors.engine.request import RenderRequest


@torch.no_grad()
def walk(family: Family, request: RenderRequest, batch: int, places: Places, meter: Callable[[], Any]) -> Activations:
    """Measure the three pieces of work, one after the other, each in a ``meter`` (meters.py) of its own.

    The tensors may be fake: then nothing is computed. Raises whatever the model raises.
    """
    encoding, stepping, decoding = meter(), meter(), meter()
    with places.encoding(), encoding:
        embeds = family.encode(request.prompt)
    row = _row(family, request, family.conditions(request, lambda _: embeds))
    rows = [row] * batch
    with stepping:
        outputs = [family.denoiser(**inputs.batched, **inputs.shared, return_dict=False)[0] for inputs in
                   family.inputs(rows)]  # fmt: skip
        family.combine(outputs, rows)
    del outputs
    with places.decoding(), decoding:
        family.decode(row.latents, row.key)
    return Activations(encode=encoding.peak, step=stepping.peak + batch * _held(row), decode=decoding.peak)


def _row(family: Family, request: RenderRequest, conditions: Embeds) -> LatentRow:
    """A row at its first step. Its scheduler is a real one, also where all else is fake."""
    generator = torch.Generator("cpu").manual_seed(0)
    latents = family.draw(request, generator)
    with unset_fake_temporarily():
        scheduler = own_scheduler(family.pipeline.scheduler)
        sampler = Sampler(scheduler, family.schedule(scheduler, request, latents), generator)
    return LatentRow(
        key=family.key(request),
        steps=sampler.steps,
        latents=latents,
        sampler=sampler,
        conditions=conditions,
        guidance=family.guidance(request),
    )


def _held(row: LatentRow) -> int:
    """Bytes that a row keeps on the device while it waits for its next step."""
    return row.latents.nbytes + sum(tensor.nbytes for tensor in row.conditions.values())
