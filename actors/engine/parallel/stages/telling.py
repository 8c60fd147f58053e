"""The graph of a split, for people and files: which rank runs what, how long, and what it sends to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from actors.engine.parallel.stages.cutting import Split
from actors.engine.parallel.stages.planning import Look, look_at, plan_split

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import ModelSettings, ParallelSettings

_UNEVEN = 1.5  # times the quickest stage's time


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A rank: its ``blocks`` and those ``steady`` ones that others run as well, their weights in bytes.

    ``ms`` are those of its blocks in a round: of the last stage twice a step's, where a round serves two steps.
    """

    rank: int
    blocks: tuple[str, ...]
    steady: tuple[str, ...]
    weights: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What goes from one rank to another in a round: tensors by block, their bytes, and how long that takes."""

    source: int
    target: int
    tensors: tuple[str, ...]
    bytes: int
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A split: for pictures of a size, timed on a device. ``step_ms`` are all blocks', one after the other."""

    plan: str
    size: str
    batch: int
    device: str
    link_gb_s: float
    step_ms: float
    round_ms: float
    speed_up: float
    ranks: tuple[Node, ...]
    links: tuple[Edge, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs and files."""
        return asdict(self)


def tell_split(
    model: ModelSettings, parallel: ParallelSettings, device: Device, size: tuple[int, int], batch: int
) -> Graph:
    """Time a model's blocks on a device, and tell how they would be shared out. No weight is read.

    Raises ModelUnavailableError.
    """
    look = look_at(model, device, size, batch)
    split = plan_split(look, look.seconds(device), parallel)
    return graph_of(look, split, parallel, device=device.label, size=size, batch=batch)


def graph_of(
    look: Look, split: Split, parallel: ParallelSettings, *, device: str, size: tuple[int, int], batch: int
) -> Graph:
    """The graph of a split whose blocks have been timed."""
    ranks = _nodes(split, look.weights(), parallel.stride)
    links = _edges(look, split, parallel.link_gb_s)
    step_ms = 1e3 * sum(stage.seconds for stage in split.stages)
    round_ms = max(*(node.ms for node in ranks), *(_traffic(rank.rank, links)[0] for rank in ranks))
    return Graph(
        plan=parallel.look,
        size=f"{size[0]}x{size[1]}",
        batch=batch,
        device=device,
        link_gb_s=parallel.link_gb_s,
        step_ms=step_ms,
        round_ms=round_ms,
        speed_up=parallel.stride * step_ms / round_ms,
        ranks=ranks,
        links=links,
        warnings=tuple(warnings_of(ranks, links, parallel.link_gb_s)),
    )


def warnings_of(ranks: Sequence[Node], links: Sequence[Edge], link_gb_s: float) -> list[str]:
    """What is wrong with a split, with numbers; empty where it is a good one."""
    found = []
    slow, quick = max(ranks, key=lambda node: node.ms), min(ranks, key=lambda node: node.ms)
    if slow.ms > _UNEVEN * quick.ms:
        times = f"{slow.ms / quick.ms:.1f} times" if quick.ms else "without end longer than"
        found.append(
            f"rank {slow.rank} takes {slow.ms:.2f} ms a round, {times} rank {quick.rank}'s {quick.ms:.2f} ms: "
            "the others wait for it; fewer devices would do as well"
        )
    for node in ranks:
        ms, size = _traffic(node.rank, links)
        if ms > slow.ms:
            found.append(
                f"rank {node.rank} has {size / 1e6:.2f} MB a round to send or to receive, {ms:.2f} ms at "
                f"{link_gb_s:g} GB/s: more than the slowest stage's {slow.ms:.2f} ms of computing"
            )
    return found


def _nodes(split: Split, weights: Mapping[str, int], stride: int) -> tuple[Node, ...]:
    last = len(split.stages) - 1
    return tuple(
        Node(
            rank=rank,
            blocks=stage.flowing,
            steady=stage.steady,
            weights=sum(weights[name] for name in stage.blocks),
            ms=1e3 * stage.seconds * (stride if rank == last else 1),
        )
        for rank, stage in enumerate(split.stages)
    )


def _edges(look: Look, split: Split, link_gb_s: float) -> tuple[Edge, ...]:
    found = []
    for link in split.links:
        size = sum(look.trace.blocks[name].shape.size_bytes(place) for name, place in link.ports)
        names = tuple(f"{name}#{place}" for name, place in link.ports)
        found.append(
            Edge(source=link.source, target=link.target, tensors=names, bytes=size, ms=size / (link_gb_s * 1e6))
        )
    return tuple(found)


def _traffic(rank: int, links: Sequence[Edge]) -> tuple[float, int]:
    """The ms and bytes of what a rank sends, or of what it receives: of the greater, as both go at once."""
    sent = [link for link in links if link.source == rank]
    received = [link for link in links if link.target == rank]
    return max((sum(link.ms for link in way), sum(link.bytes for link in way)) for way in (sent, received))
