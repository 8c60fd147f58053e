"""One stage's part of a denoiser's pass: the model's own ``forward``, with the blocks of other stages left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from actors.engine.parallel.stages.cutting import Split
from actors.engine.parallel.stages.tracing import Port, Shape, Trace, blocks_of

Tensors = Mapping[Port, torch.Tensor]


class _ThroughError(BaseException):
    """The stage's last block has run: what comes after it is others' work. Not an ``Exception``: nobody catches it."""


class StagePart:
    """The blocks of one stage, in a module that runs nothing else."""

    def __init__(self, module: torch.nn.Module, split: Split, stage: int) -> None:
        """``module`` is the denoiser, in which the blocks of other stages are replaced here; they need no weights."""
        self._module = module
        self._last = stage == len(split.stages) - 1
        own = split.stages[stage]
        self._final = own.flowing[-1]
        self._wanted = {port for link in split.links if link.source == stage for port in link.ports}
        self._given: Tensors = {}
        self._made: dict[Port, torch.Tensor] = {}
        self._trace: Trace | None = None
        for name, block in list(blocks_of(module)):
            if name in own.blocks:
                block.register_forward_hook(self._after(name))
            else:
                parent, _, child = name.rpartition(".")
                setattr(module.get_submodule(parent), child, _Elsewhere(self._instead(name)))

    def run(
        self, call: Callable[..., Any], arguments: Mapping[str, Any], trace: Trace, given: Tensors
    ) -> tuple[dict[Port, torch.Tensor], torch.Tensor | None]:
        """Run the stage's blocks on what others ``given`` it: what others need of them, and the last stage's output.

        ``call`` is the module or what wraps it, ``trace`` one of a call with arguments of the same shapes.
        """
        with self._running(trace, given):
            output = None
            with suppress(_ThroughError):
                output = call(**{**arguments, "return_dict": False})[0]
            return self._made, output if self._last else None

    @contextmanager
    def _running(self, trace: Trace, given: Tensors) -> Iterator[None]:
        self._trace, self._given, self._made = trace, given, {}
        try:
            yield
        finally:
            self._trace, self._given, self._made = None, {}, {}

    def _after(self, name: str) -> Callable[..., None]:
        def note(_: Any, __: Any, output: Any) -> None:
            for place, leaf in enumerate(tree_flatten(output)[0]):
                if (name, place) in self._wanted:
                    self._made[name, place] = leaf
            if name == self._final and not self._last:
                raise _ThroughError

        return note

    def _instead(self, name: str) -> Callable[[], Any]:
        def give() -> Any:
            if self._trace is None:
                raise RuntimeError("a stage's part of a denoiser is run by its stage alone")
            shape = self._trace.blocks[name].shape
            return shape.unflatten(
                [self._given.get((name, place), self._filler(shape, place)) for place in range(len(shape.leaves))]
            )

        return give

    def _filler(self, shape: Shape, place: int) -> torch.Tensor | None:
        """A tensor of the right shape and of no memory: only what is thrown away is made of it."""
        leaf = shape.leaves[place]
        if leaf is None:
            return None
        device = next(self._module.parameters()).device
        return torch.zeros((), dtype=leaf[1], device=device).expand(leaf[0])


class _Elsewhere(torch.nn.Module):
    """Stands where another stage's block was."""

    def __init__(self, give: Callable[[], Any]) -> None:
        super().__init__()
        self._give = give

    def forward(self, *_: Any, **__: Any) -> Any:
        """Whatever is given instead."""
        return self._give()
