"""Measures the engine on a GPU: ``python -m bench.gpu``. Models have random weights; nothing is downloaded."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from actors.engine.devices import Device, find_device
from bench.gpu.parts import PARTS, Plan, cases_of, run
from bench.gpu.results import Results
from bench.gpu.tables import show
from safelight.config import LogSettings
from safelight.telemetry.logs import configure_logging

_PARTS = """\
parts:
  steps    milliseconds a step: plain diffusers, the engine eager, compiled, from CUDA graphs; beside the floor
  gaps     the share of a step's time in which no kernel runs
  knee     how many rows are worth stepping together
  memory   what the plans resident, staged and grouped take at most
  trace    requests that arrive by chance, through the whole engine: p50 and p95

examples:
  python -m bench.gpu --results gpu.jsonl          everything; run again, it goes on where it stopped
  python -m bench.gpu steps --models flux --sizes 1024 --batches 1
  python -m bench.gpu knee --plot knee.svg
  python -m bench.gpu --smoke                      every path that a CPU can take, in a minute

The last line is JSON. docs/performance.md tells what the columns mean.
"""


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    configure_logging(LogSettings(level="error", format="console"))
    _quiet_libraries()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    plan = _plan(options)
    results = Results(options.results, plan.place)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(len(list(cases_of(part, plan))) for part in options.parts))
        for part in options.parts:
            for label in run(part, plan, results):
                progress.update(task, description=f"{part} {label}")
                progress.advance(task)
    for part in options.parts:
        show(console, part, plan, results)
    print(json.dumps({"device": plan.device.label, "dtype": str(plan.dtype), "lines": results.lines}))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description="Measures the engine on a GPU. Models have random weights; nothing is downloaded.",
        epilog=_PARTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="see below; all by default")
    parser.add_argument("--models", nargs="+", default=["flux", "sdxl", "small"], choices=["flux", "sdxl", "small"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024], help="sides of pictures, in pixels")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 2, 4, 8], help="pictures a step")
    parser.add_argument("--device", default="auto", help="auto, cuda:0, cpu …")
    parser.add_argument("--rounds", type=int, default=5, help="rounds a case; the median counts")
    parser.add_argument("--calls", type=int, default=10, help="steps a round")
    parser.add_argument("--requests", type=int, default=60, help="of the trace")
    parser.add_argument("--results", type=Path, help="a file of JSON lines to add to, and to go on from")
    parser.add_argument("--plot", type=Path, help="where the part knee draws its curves: .svg or .png")
    parser.add_argument("--smoke", action="store_true", help="tiny models, few steps: does it run at all?")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


def _quiet_libraries() -> None:
    """No progress bars but the benchmark's own."""
    import diffusers
    import transformers

    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()


def _plan(options: argparse.Namespace) -> Plan:
    device: Device = find_device("cpu" if options.smoke else options.device)
    if options.smoke:
        torch.set_num_threads(1)
        return Plan(
            device=device, dtype=torch.float32, tiny=True, sizes=(64,), batches=(1, 2), rounds=1, calls=2, requests=4,
            models=tuple(options.models), plot=options.plot,
        )  # fmt: skip
    return Plan(
        device=device,
        dtype=torch.bfloat16 if device.kind == "cuda" else torch.float32,
        tiny=False,
        models=tuple(options.models),
        sizes=tuple(options.sizes),
        batches=tuple(options.batches),
        rounds=options.rounds,
        calls=options.calls,
        requests=options.requests,
        plot=options.plot,
    )


if __name__ == "__main__":
    main()
