"""Builds guidance into the transformer, so that rendering needs one pass a step."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from .flow import Batch, Batches, predict
from .parts import Parts
from .untyped import Untyped

QUIET_BELOW = 0.25
"""Times below this are not guided: there guidance only mottles fills."""


@dataclass(frozen=True)
class Guidance:
    """A frozen teacher, how strongly it is guided, and how much true data is mixed in."""

    teacher: Untyped
    scale: float
    data_share: float


def make_guidance(parts: Parts, scale: float, data_share: float) -> Guidance:
    """Guidance by the transformer as it is now."""
    teacher = copy.deepcopy(parts.transformer).requires_grad_(False)
    return Guidance(teacher, scale, data_share)


def guidance_loss(parts: Parts, guidance: Guidance, batches: Batches) -> torch.Tensor:
    """How far the student is from the guided teacher."""
    batch = batches.draw(late=True, empty_share=0.0)
    with torch.no_grad():
        pooled, states = parts.encode_text(batch.captions)
        target = _guided(parts, guidance, batch, pooled, states)
    return (predict(parts.transformer, batch, pooled, states) - target).square().mean()


def _guided(parts: Parts, guidance: Guidance, batch: Batch, pooled: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    empty_pooled, empty_states = parts.encode_text([""])
    count = len(batch.captions)
    told = predict(guidance.teacher, batch, pooled, states)
    untold = predict(guidance.teacher, batch, empty_pooled.expand(count, -1), empty_states.expand(count, -1, -1))
    extra = torch.where(batch.times < QUIET_BELOW, 0.0, guidance.scale - 1)[:, None, None]
    return torch.lerp(told, batch.velocity, guidance.data_share) + extra * (told - untold)
