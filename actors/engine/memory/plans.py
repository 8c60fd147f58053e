"""Memory plans: what each needs at most, and which one a device has room for. Plain arithmetic, no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Plan = Literal["resident", "staged", "grouped"]
"""From the fastest to the one that needs least."""

PLANS: tuple[Plan, ...] = ("resident", "staged", "grouped")

_MARGIN = 0.08  # of the device: cuBLAS and cuDNN workspaces, and what the allocator can't use for being in pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes of a pipeline's parts as they lie on the device.

    ``streamed`` is what of the denoiser is there at once when its blocks come and go; ``others`` are parts that no
    plan moves (an image encoder, say).
    """

    encoders: int
    denoiser: int
    vae: int
    others: int
    streamed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.encoders + self.denoiser + self.vae + self.others


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Bytes beside the weights at the worst moment of encoding one text, of one denoising step, of decoding one row."""

    encode: int
    step: int
    decode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What rendering a batch at one size takes. ``traced`` is False where ``activations`` are a mere allowance."""

    weights: Weights
    activations: Activations
    traced: bool = True

    def peak(self, plan: Plan) -> int:
        """Bytes at the worst moment.

        Encoding and stepping happen on one thread, never at once; decoding on another, beside either.
        """
        weights, activations = self.weights, self.activations
        if plan == "resident":
            rendering = weights.encoders + weights.denoiser + max(activations.encode, activations.step)
        else:
            stepping = weights.denoiser if plan == "staged" else weights.streamed
            while_encoding = weights.denoiser if plan == "staged" else 0
            rendering = max(while_encoding + weights.encoders + activations.encode, stepping + activations.step)
        return weights.others + rendering + weights.vae + activations.decode


def graphs_allowed(plan: Plan) -> bool:
    """Whether CUDA graphs and fullgraph compiling go with a plan: a graph needs weights that stay where they are."""
    return plan != "grouped"


def fits(need: Need, plan: Plan, room: int) -> bool:
    """Whether a plan's peak, and a margin, fit into ``room`` bytes."""
    return need.peak(plan) <= room * (1 - _MARGIN)


def choose(need_of: Callable[[int], Need], room: int, batch: int) -> Plan:
    """The plan for ``room`` bytes; ``need_of`` tells what a batch of so many rows takes.

    Resident or staged where a full batch fits, staged where at least one picture does, grouped otherwise: a batch that
    turns out too large is halved, which costs less than weights that cross the bus at every step.
    """
    full = need_of(batch)
    if fits(full, "resident", room):
        return "resident"
    if fits(full, "staged", room) or fits(need_of(1), "staged", room):
        return "staged"
    return "grouped"
