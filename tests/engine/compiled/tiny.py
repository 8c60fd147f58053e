"""A tiny denoiser, passes for it, and what the tests of graphs put in place of CUDA."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from diffusers import FluxTransformer2DModel

from actors.engine.families.base import Inputs
from actors.engine.observer import GraphEvent, Unobserved
from actors.engine.stepping import BatchKey

CPU = torch.device("cpu")
KEY = BatchKey("tiny", 64, 64, 6)


def tiny_flux(**changes: Any) -> torch.nn.Module:
    """A FLUX transformer of some 20 thousand random weights, the same ones each time."""
    torch.manual_seed(0)
    arguments: dict[str, Any] = {
        "in_channels": 4,
        "num_layers": 1,
        "num_single_layers": 1,
        "attention_head_dim": 8,
        "num_attention_heads": 2,
        "joint_attention_dim": 8,
        "pooled_projection_dim": 8,
        "guidance_embeds": True,
        "axes_dims_rope": (2, 2, 4),
    } | changes
    model: Any = FluxTransformer2DModel(**arguments)
    denoiser: torch.nn.Module = model.eval().requires_grad_(requires_grad=False)
    return denoiser


def flux_inputs(rows: int, *, side: int = 4, seed: int = 0, device: str = "cpu") -> Inputs:
    """A pass of ``tiny_flux`` over ``side`` x ``side`` patches; every row differs in all that may differ."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(rows, *shape, generator=generator).to(device)

    grid = torch.stack(torch.meshgrid(torch.zeros(1), *2 * [torch.arange(side).float()], indexing="ij"), -1)
    return Inputs(
        {
            "hidden_states": noise(side * side, 4),
            "timestep": torch.linspace(0.1, 1.0, rows).to(device),
            "guidance": torch.linspace(1.0, 4.0, rows).to(device),
            "pooled_projections": noise(8),
            "encoder_hidden_states": noise(6, 8),
        },
        {
            "img_ids": grid.view(-1, 3).to(device),
            "txt_ids": torch.zeros(6, 3, device=device),
            "joint_attention_kwargs": {},
        },
    )


class StandInReplay:
    """A replay of ``StandIn``: it does the call again, into the same output."""

    def __init__(self, owner: StandIn, call: Callable[[], torch.Tensor]) -> None:
        self._owner = owner
        self._call = call
        self.output = call().clone()

    def replay(self) -> None:
        """What a replay leaves: its own output, and whatever it likes in that of every other graph of the pool."""
        for other in self._owner.alive:
            other.output.fill_(float("nan"))
        self.output.copy_(self._call())

    def drop(self) -> None:
        """A dropped replay can't be replayed."""
        self._owner.alive.remove(self)
        self._owner.dropped += 1


class StandIn:
    """In place of ``CudaCapture`` on a machine without CUDA.

    It keeps what the logic around it relies on: an output that stays where it is, a pool that grows to its largest
    graph and doesn't shrink until it is renewed, and errors where a test asks for them.
    """

    def __init__(self, sizes: dict[int, int] | None = None) -> None:
        """``sizes``: bytes of the pool that a graph of so many rows needs."""
        self.alive: list[StandInReplay] = []
        self.dropped = 0
        self.captured: list[int] = []
        self.errors: list[Exception] = []
        self.pool_bytes = 0
        self._sizes = sizes or {}

    def capture(self, call: Callable[[], torch.Tensor]) -> StandInReplay:
        """Call once, keep the output's memory."""
        if self.errors:
            raise self.errors.pop(0)
        replay = StandInReplay(self, call)
        self.alive.append(replay)
        self.captured.append(len(replay.output))
        self.pool_bytes += self._sizes.get(len(replay.output), 0)
        return replay

    def renew(self) -> None:
        """An empty pool. Nothing of the old one may be alive, or its memory would not go back."""
        assert not self.alive
        self.pool_bytes = 0

    def settle(self) -> None:
        """Nothing is ever under way here."""


class Listener(Unobserved):
    """Counts what happens to graphs."""

    def __init__(self) -> None:
        self.events: Counter[GraphEvent] = Counter()

    def graph(self, model: str, event: GraphEvent) -> None:
        """Count it."""
        assert model == "tiny"
        self.events[event] += 1


def some_rows(count: int, most: int, seed: int = 0) -> list[int]:
    """Batch sizes in an order that no design favours."""
    choice = random.Random(seed)
    return [choice.randint(1, most) for _ in range(count)]
