"""Measures kinds of parallelism and numbers of ranks: ``python -m bench.parallel``. The last line is JSON.

    python -m bench.parallel                                        the model that ships, 2 ranks, every kind that fits
    python -m bench.parallel --model black-forest-labs/FLUX.1-dev --family flux --size 1024x1024 --ranks 2,4,8

A speed-up is told on GPUs alone: ranks on one CPU share its cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from actors.engine.devices import Device, find_device
from actors.engine.memory.quantizing import torchao_hushed
from actors.engine.parallel.rank import quieten
from safelight.config import LogSettings, ModelSettings, ParallelSettings
from safelight.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from bench.parallel.measuring import Measured

SCENES = Path(__file__).resolve().parents[2] / "models" / "scenes-flux"
KINDS = ("ulysses", "ring", "tensor", "cfg", "async")


def main() -> None:
    """Measure what the command line asks for."""
    options = _options()
    configure_logging(LogSettings(level="error", format="console"))
    quieten()
    with torchao_hushed():
        import diffusers  # noqa: F401
    device, model = find_device(options.device), _model(options)
    plans = list(_plans(model, options.kinds.split(","), [int(ranks) for ranks in options.ranks.split(",")]))
    console = Console() if sys.stdout.isatty() else Console(width=140)
    from bench.parallel.measuring import measure

    lines = []
    with Progress(console=Console(stderr=True)) as progress:
        for plan in progress.track([None, *plans]):
            spread = msgspec.structs.replace(model, parallel=plan)
            lines.append(measure(spread, device, options.rows, options.steps))
    console.print(_table(lines, device, model, options.rows))
    print(json.dumps({"device": device.label, "size": model.usual_size, "lines": [asdict(line) for line in lines]}))


def _plans(model: ModelSettings, kinds: list[str], ranks: list[int]) -> Iterator[ParallelSettings]:
    """The kinds that fit the model's family, each with so many ranks."""
    for kind in kinds:
        for count in ranks:
            try:
                plan = msgspec.convert({"kind": kind, "devices": count}, ParallelSettings)
                plan.check_family(model.traits.name)
            except ValueError:  # msgspec's errors are ValueErrors
                continue
            yield plan


def _table(lines: list[Measured], device: Device, model: ModelSettings, rows: int) -> Table:
    table = Table("plan", "ranks", "ms a step", "speed-up", "weights a rank, MB", "peak a rank, MB", box=None)
    table.title = f"{model.identity} at {model.usual_size}, {rows} rows a step, {device.label}"
    for line in lines:
        if line.failed:
            table.add_row(line.plan, str(line.ranks), line.failed)
            continue
        gained = f"{lines[0].step_ms / line.step_ms:.2f}x" if device.kind == "cuda" else "-"
        weights, peaks = (" ".join(f"{one / 1e6:.1f}" for one in each) for each in (line.weights, line.peaks))
        table.add_row(line.plan, str(line.ranks), f"{line.step_ms:.1f}", gained, weights, peaks)
    if device.kind != "cuda":
        table.caption = "no speed-up is told: the ranks share one CPU; the peak is that of the whole process"
    return table


def _model(options: argparse.Namespace) -> ModelSettings:
    return ModelSettings(
        model=options.model,
        family=options.family,
        dtype=options.dtype,
        default_size=options.size,
        max_sequence_length=options.text_length,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench.parallel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=str(SCENES), help="a folder in diffusers format, or a hub id")
    parser.add_argument("--family", default="flux")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--text-length", type=int, default=24, help="tokens of the text; 512 for FLUX.1-dev")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--rows", type=int, default=2, help="pictures a step")
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
