"""``safelight doctor --plan`` of a model that is cut into stages: who runs what, and sends what to whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from safelight.cli.doctor.drawing import size_of
from safelight.cli.exits import CommandError, RefusedError

if TYPE_CHECKING:
    from rich.console import Group

    from actors.engine.parallel.stages.telling import Graph
    from safelight.config import ModelSettings

_BAR = 24  # columns


def split_of(model: ModelSettings, wanted: str, size: tuple[int, int], batch: int | None) -> Graph | None:
    """The model's split as it would be on the device that is ``wanted``; None of a model that isn't cut.

    Raises what the engine raises of a model that can't be looked at.
    """
    if model.parallel is None or model.parallel.kind != "async":
        return None
    from actors.engine.devices import SIMULATED, Device, find_device
    from actors.engine.parallel.stages.telling import tell_split

    device = find_device(wanted)
    if device.kind == SIMULATED:
        device = Device("cpu", "cpu")
    return tell_split(model, model.parallel, device, size, batch or 1)


def save_split(graph: Graph | None, name: str, file: Path) -> None:
    """Write the graph as JSON. Raises RefusedError where there is none, CommandError where it can't be written."""
    if graph is None:
        raise RefusedError(f'--save: model {name!r} is not cut into stages, as by parallel = {{ kind = "async" }}')
    try:
        file.write_text(json.dumps(graph.as_json(), indent=2) + "\n")
    except OSError as error:
        raise CommandError(f"--save: {file} can't be written: {error.strerror}") from error


def draw_split(graph: Graph) -> Group:
    """A bar a rank, a line a link, and what is wrong."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    most = max(rank.ms for rank in graph.ranks)
    ranks, links = (Table(box=None, show_header=False, pad_edge=False) for _ in range(2))
    for rank in graph.ranks:
        filled = max(1, round(_BAR * rank.ms / most)) if most else 1
        bar = f"[green]{'━' * filled}[/][dim]{'╌' * (_BAR - filled)}[/]"
        blocks = f"{rank.blocks[0]} … {rank.blocks[-1]} ({len(rank.blocks)})"
        ranks.add_row(
            f"[bold]rank {rank.rank}[/]",
            bar,
            f"{rank.ms:.2f} ms",
            f"{size_of(rank.weights)} of weights",
            escape(blocks),
        )
    for link in graph.links:
        links.add_row(
            f"{link.source} → {link.target}",
            size_of(link.bytes),
            f"{link.ms:.3f} ms at {graph.link_gb_s:g} GB/s",
            f"[dim]{escape(', '.join(link.tensors))}[/]",
        )
    title = f"[bold]{escape(graph.plan)}[/] · {graph.size}, batch {graph.batch} · timed on {escape(graph.device)}"
    verdict = f"a step takes {graph.step_ms:.2f} ms on one device, a round {graph.round_ms:.2f} ms: at most "
    verdict += f"{graph.speed_up:.2f} times as fast"
    warnings = [Text.from_markup(f"[yellow]warning[/] {escape(words)}") for words in graph.warnings]
    return Group(Text(), Text.from_markup(title), ranks, Text("sent in a round"), links, Text(verdict), *warnings)
