"""Activations from stage to stage, point to point: sent while others still compute, received before they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from actors.engine.parallel.stages.cutting import Split
from actors.engine.parallel.stages.tracing import Port, Trace

Held = dict[Port, torch.Tensor]


class Exchange:
    """One stage's sends and receives. All stages call the same in the same order; each pair in the order of ports."""

    def __init__(self, split: Split, stage: int, device: str) -> None:
        """``device`` is where tensors lie; the process group is there."""
        self._sends = [(link.target, port) for link in split.links if link.source == stage for port in link.ports]
        self._receives = [(link.source, port) for link in split.links if link.target == stage for port in link.ports]
        self._device = device
        self._under_way: list[tuple[list[Any], list[torch.Tensor]]] = []

    def receive(self, trace: Trace) -> Held:
        """Wait for what the others send in this step."""
        held, operations = self._expected(trace)
        self._begin(operations, list(held.values()))
        self.settle()
        return held

    def send(self, made: Mapping[Port, torch.Tensor]) -> None:
        """Hand over what the others need in this step, without waiting."""
        operations, tensors = self._given(made)
        self._begin(operations, tensors)

    def swap(self, made: Mapping[Port, torch.Tensor], trace: Trace) -> Held:
        """Hand over what this round made, and take what the others made: without waiting, until ``settle``.

        All in one batch: then no two stages wait for each other, whatever the way between them.
        """
        held, receives = self._expected(trace)
        sends, tensors = self._given(made)
        self._begin(sends + receives, [*held.values(), *tensors])
        return held

    def settle(self) -> None:
        """Wait for all that is under way."""
        for works, _ in self._under_way:
            for work in works:
                work.wait()
        self._under_way = []

    def _begin(self, operations: Sequence[Any], tensors: list[torch.Tensor]) -> None:
        if operations:
            works = torch.distributed.batch_isend_irecv(list(operations))
            self._under_way.append((works, tensors))  # kept alive until they have gone

    def _expected(self, trace: Trace) -> tuple[Held, list[Any]]:
        held: Held = {}
        operations = []
        for source, port in self._receives:
            leaf = trace.blocks[port[0]].shape.leaves[port[1]]
            if leaf is None:
                continue
            held[port] = torch.empty(leaf[0], dtype=leaf[1], device=self._device)
            operations.append(torch.distributed.P2POp(torch.distributed.irecv, held[port], source))
        return held, operations

    def _given(self, made: Mapping[Port, torch.Tensor]) -> tuple[list[Any], list[torch.Tensor]]:
        tensors = {port: made[port].contiguous() for _, port in self._sends}
        operations = [
            torch.distributed.P2POp(torch.distributed.isend, tensors[port], target) for target, port in self._sends
        ]
        return operations, list(tensors.values())
