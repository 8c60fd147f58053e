"""One stage in a rank: it has its own blocks' weights, and exchanges activations with the other stages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from actors.engine.devices import choose_dtype
from actors.engine.loading import explained
from actors.engine.memory.quantizing import quantize_denoiser
from actors.engine.parallel.orders import Order, Seat
from actors.engine.parallel.programs import dressed, weights_of
from actors.engine.parallel.stages.exchange import Exchange, Held
from actors.engine.parallel.stages.gang import AGAIN, EXACT
from actors.engine.parallel.stages.planning import Look, look_at, plan_split
from actors.engine.parallel.stages.share import read_share
from actors.engine.parallel.stages.stage import StagePart
from actors.engine.parallel.stages.tracing import Trace, trace

_TRACES = 32  # of shapes that were asked for last: some hundred kB each


class Staged:
    """A rank's program (``programs.Program``)."""

    def load(self, seat: Seat) -> int:
        """Time the blocks, cut, and load this stage's share of the weights."""
        parallel = seat.model.parallel
        if parallel is None:
            raise ValueError("a stage's model has parallel settings")
        dtype = choose_dtype(seat.model, seat.device)
        with explained(seat.model, seat.device):
            look = look_at(seat.model, seat.device)
            cut = plan_split(look, _agreed_seconds(look, seat), parallel)
            module = read_share(look.found, seat.model, seat.device, dtype, cut.stages[seat.rank].blocks)
            self._part = StagePart(module, cut, seat.rank)
            quantize_denoiser(SimpleNamespace(components={look.found.name: module}), seat.model.quantize, dtype)
        self._module = module.to(seat.device.place)
        self._stepped = dressed(self._module, look.found.pipeline)
        self._looks = {True: dressed(look.module, look.found.pipeline), False: look.module}
        self._bare = look.module
        self._traces: OrderedDict[Hashable, Trace] = OrderedDict()
        self._exchange = Exchange(cut, seat.rank, seat.device.place)
        self._held: list[Held] = []
        self._coming: list[Held] = []
        return weights_of(self._module)

    def run(self, order: Order) -> Sequence[torch.Tensor]:
        """This stage's part of each pass; the last stage's tensors are the outputs."""
        passes = [{**one.batched, **one.shared} for one in order.passes]
        stepped = order.key is not None
        kind = order.note.get("step", EXACT)
        if kind == AGAIN:
            return self._again(passes, stepped)
        self._exchange.settle()
        return self._exactly(passes, stepped) if kind == EXACT else self._at_once(passes, stepped)

    def _exactly(self, passes: Sequence[Mapping[str, Any]], stepped: bool) -> list[torch.Tensor]:
        """Stage after stage: each waits for what the stages before it make of this step."""
        self._held, self._coming, outputs = [], [], []
        for arguments in passes:
            traced = self._traced(arguments, stepped)
            self._held.append(self._exchange.receive(traced))
            made, output = self._part.run(self._call(stepped), arguments, traced, self._held[-1])
            self._exchange.send(made)
            outputs += [] if output is None else [output]
        self._exchange.settle()
        return outputs

    def _at_once(self, passes: Sequence[Mapping[str, Any]], stepped: bool) -> list[torch.Tensor]:
        """All stages together, each on what the last round left it; what this round makes is on its way meanwhile."""
        self._held, self._coming = self._coming or self._held, []
        outputs = []
        for arguments, held in zip(passes, self._held, strict=True):
            traced = self._traced(arguments, stepped)
            made, output = self._part.run(self._call(stepped), arguments, traced, held)
            self._coming.append(self._exchange.swap(made, traced))
            outputs += [] if output is None else [output]
        return outputs

    def _again(self, passes: Sequence[Mapping[str, Any]], stepped: bool) -> list[torch.Tensor]:
        """The last stage once more on what it had in this round, at a later time; the others are still at work, or
        have nothing to do.
        """
        outputs = []
        for arguments, held in zip(passes, self._held, strict=False):
            output = self._part.run(self._call(stepped), arguments, self._traced(arguments, stepped), held)[1]
            outputs += [] if output is None else [output]
        return outputs

    def _call(self, stepped: bool) -> Callable[..., Any]:
        return self._stepped if stepped else self._module

    def _traced(self, arguments: Mapping[str, Any], stepped: bool) -> Trace:
        """The trace of a call of such shapes, made once."""
        key = (stepped, _shapes(arguments))
        if key not in self._traces:
            self._traces[key] = trace(self._bare, self._looks[stepped], arguments)
            if len(self._traces) > _TRACES:
                self._traces.popitem(last=False)
        self._traces.move_to_end(key)
        return self._traces[key]


def _agreed_seconds(look: Look, seat: Seat) -> dict[str, float]:
    """The blocks' times as the first rank measures them: all must cut alike."""
    names = look.trace.flowing
    times = look.seconds(seat.device) if seat.rank == 0 else dict.fromkeys(names, 0.0)
    told = torch.tensor([times[name] for name in names], device=seat.device.place)
    torch.distributed.broadcast(told, 0)
    return dict(zip(names, told.tolist(), strict=True))


def _shapes(arguments: Mapping[str, Any]) -> Hashable:
    leaves, tree = tree_flatten(dict(arguments))
    told = tuple((tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else repr(x) for x in leaves)
    return str(tree), told
