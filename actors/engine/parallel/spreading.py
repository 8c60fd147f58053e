"""Exact kinds by diffusers' own means: context parallelism (Ulysses, ring) and tensor parallelism.

https://arxiv.org/abs/2309.14509 (Ulysses), https://arxiv.org/abs/2310.01889 (ring), https://arxiv.org/abs/1909.08053
(tensor). ``mending.py`` holds what CPUs need besides.
"""

from __future__ import annotations

from typing import Any

import torch

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.mending import counting_cpus, mend
from actors.engine.parallel.orders import Order, Seat
from actors.engine.parallel.programs import Whole


class ContextParallel(Whole):
    """Each rank has the whole denoiser and a part of the tokens; ranks meet in attention, and at the end."""

    name = ""  # ring or ulysses, as in diffusers' configuration

    def spread(self, module: torch.nn.Module, seat: Seat) -> None:
        """Let the denoiser's own plan split its tokens. Raises ModelUnavailableError where it has none."""
        from diffusers import ContextParallelConfig

        if getattr(module, "_cp_plan", None) is None:
            raise ModelUnavailableError(
                f"parallel.kind: diffusers has no plan to split {type(module).__name__} by tokens"
            )
        degrees = {"ring": 1, "ulysses": 1} | {self.name: seat.size}
        mesh = torch.distributed.device_mesh.init_device_mesh(
            seat.device.kind, tuple(degrees.values()), mesh_dim_names=tuple(degrees)
        )
        self._config = ContextParallelConfig(ring_degree=degrees["ring"], ulysses_degree=degrees["ulysses"], mesh=mesh)
        enable(module, self._config, seat)
        self._size = seat.size

    def prepare(self, order: Order) -> None:
        """Uneven lengths go by diffusers' "anything" mode, which first tells all ranks the lengths: not else."""
        even = all(length % self._size == 0 for one in order.passes for length in _lengths(one.batched | one.shared))
        setattr(self._config, f"{self.name}_anything", not even)


class Ulysses(ContextParallel):
    """Before attention tokens are exchanged for heads, after it heads for tokens."""

    name = "ulysses"


class Ring(ContextParallel):
    """Keys and values of all ranks pass by each rank's queries."""

    name = "ring"


class Tensor(Whole):
    """Each rank has its share of the blocks' linear weights; ranks add up after each attention and feed-forward."""

    def spread(self, module: torch.nn.Module, seat: Seat) -> None:
        """Let the denoiser's own plan shard its weights. Raises ModelUnavailableError where it has none."""
        from diffusers.models._modeling_parallel import TensorParallelConfig

        if getattr(module, "_tp_plan", None) is None:
            raise ModelUnavailableError(
                f"parallel.kind: diffusers has no plan to shard the weights of {type(module).__name__}"
            )
        mesh = torch.distributed.device_mesh.init_device_mesh(seat.device.kind, (seat.size,), mesh_dim_names=("tp",))
        enable(module, TensorParallelConfig(tp_degree=seat.size, mesh=mesh), seat)


def enable(module: Any, config: Any, seat: Seat) -> None:
    """Turn a denoiser's parallelism on."""
    mend(seat.device.kind)
    with counting_cpus():
        module.enable_parallelism(config=config)


def _lengths(arguments: dict[str, Any]) -> list[int]:
    """Tokens of the picture and of the text."""
    hidden = [arguments.get(name) for name in ("hidden_states", "encoder_hidden_states")]
    return [tensor.shape[1] for tensor in hidden if isinstance(tensor, torch.Tensor)]
