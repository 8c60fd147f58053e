"""Cuts a denoiser's line of blocks into stages of about the same time, and tells what then goes where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.engine.errors import ModelUnavailableError
from actors.engine.parallel.stages.tracing import Port, Trace


@dataclass(frozen=True, slots=True)
class Stage:
    """What one rank runs: the ``flowing`` blocks are its own, the ``steady`` ones it runs as others do.

    ``seconds`` are those of its own blocks in one step.
    """

    flowing: tuple[str, ...]
    steady: tuple[str, ...]
    seconds: float

    @property
    def blocks(self) -> frozenset[str]:
        """All that it has the weights of."""
        return frozenset(self.flowing + self.steady)


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """Tensors that go from one stage to another in each step."""

    source: int
    target: int
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """The stages in order, and all links between them; the last stage gives the output."""

    stages: tuple[Stage, ...]
    links: tuple[Link, ...]


def split(trace: Trace, seconds: Mapping[str, float], stages: int, stride: int = 1) -> Split:
    """Cut a denoiser whose blocks take so long. Raises ModelUnavailableError where it has too few.

    With a stride of 2 the last stage's blocks run twice in a round, and are counted so.
    """
    flowing = trace.flowing
    if len(flowing) < stages:
        raise ModelUnavailableError(f"parallel.devices: {len(flowing)} blocks can't be cut into {stages} stages")
    cuts = cut([seconds[name] for name in flowing], stages, stride)
    shares = [flowing[first:last] for first, last in zip((0, *cuts), (*cuts, len(flowing)), strict=True)]
    own = {name: stage for stage, share in enumerate(shares) for name in share}
    made = tuple(Stage(share, _steady(trace, share), sum(seconds[name] for name in share)) for share in shares)
    wanted = {(own[port[0]], stage, port) for stage, share in enumerate(shares) for port in _needs(trace, share)}
    wanted |= {(own[port[0]], stages - 1, port) for port in trace.output if port[0] in own}
    pairs = sorted({(source, target) for source, target, _ in wanted if source != target})
    order = {name: place for place, name in enumerate(flowing)}
    return Split(
        made,
        tuple(
            Link(
                *pair,
                tuple(sorted((x[2] for x in wanted if x[:2] == pair), key=lambda port: (order[port[0]], port[1]))),
            )
            for pair in pairs
        ),
    )


def cut(costs: Sequence[float], parts: int, last_times: int = 1) -> tuple[int, ...]:
    """Where to cut a line into so many parts, none empty, that the dearest costs least: dynamic programming.

    The last part costs ``last_times`` as much. Of equal cuts the first is taken.
    """
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    count = len(costs)
    best: dict[int, tuple[float, tuple[int, ...]]] = {
        end: (sums[end], ()) for end in range(1, count + 1)
    }  # the first parts end before ``end``
    if parts == 1:
        return ()
    for part in range(2, parts + 1):
        times = last_times if part == parts else 1
        grown: dict[int, tuple[float, tuple[int, ...]]] = {}
        for end in range(part, count + 1):
            choices = [
                (max(best[at][0], times * (sums[end] - sums[at])), (*best[at][1], at)) for at in range(part - 1, end)
            ]
            grown[end] = min(choices)
        best = grown
    return best[count][1]


def _needs(trace: Trace, blocks: Sequence[str]) -> set[Port]:
    """Tensors of blocks that work on the latents, wherever they are."""
    needs = {port for name in blocks for port in trace.blocks[name].needs}
    return {port for port in needs if not trace.blocks[port[0]].steady}


def _steady(trace: Trace, blocks: Sequence[str]) -> tuple[str, ...]:
    """The steady blocks that these need, and those that they need in turn, in their order."""
    found: set[str] = set()
    pending = list(blocks)
    while pending:
        needed = {name for name, _ in trace.blocks[pending.pop()].needs if trace.blocks[name].steady}
        pending += needed - found
        found |= needed
    return tuple(name for name in trace.blocks if name in found)
