"""``safelight doctor --knee``: how many pictures are worth stepping together, measured on this device and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from safelight.cli.doctor.check import first_line
from safelight.cli.doctor.plan import Question, chosen_model, parse_size
from safelight.cli.exits import CommandError
from safelight.config import load_settings

if TYPE_CHECKING:
    from rich.table import Table

    from actors.engine.compiled.knee import Knee, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A model's table on a device, and the choice."""

    name: str
    size: str
    device: str
    mode: str
    file: Path
    knee: Knee


def measure(config: Path | None, question: Question, on_measure: Callable[[Timing], None]) -> Measured:
    """Load the model, measure, keep. Raises ConfigError, CommandError, RefusedError."""
    settings = load_settings(config)
    name, model = chosen_model(settings, question.model)
    width, height = parse_size(question.size or model.usual_size, model.traits.size_multiple)
    most = question.batch or max(model.max_batch or settings.engine.max_batch, 16)
    try:
        from actors.engine.building import Builder
        from actors.engine.devices import SIMULATED, find_device
        from actors.engine.errors import EngineError
        from actors.engine.observer import Unobserved
    except ImportError as error:
        raise CommandError(f"a package is missing: {error}", "pip install 'safelight[worker]'") from error
    engine = msgspec.structs.replace(settings.engine, knee="stored")
    try:
        device = find_device(settings.worker.device)
        if device.kind == SIMULATED:
            raise CommandError("a simulated device has no knee to measure", "its name says what a step takes")
        builder = Builder(device, engine, Unobserved(), settings.knees_file)
        usual = msgspec.structs.replace(model, default_size=f"{width}x{height}", sizes=(), max_batch=most)
        found = builder.measure(name, usual, on_measure)
    except EngineError as error:
        raise CommandError(first_line(error)) from error
    if found is None:
        raise CommandError(
            f"model {name} is rendered whole, or not one picture of {width}x{height} fits into {device.label}'s memory"
        )
    knee, mode = found
    return Measured(
        name=name, size=f"{width}x{height}", device=device.label, mode=mode, file=settings.knees_file, knee=knee
    )


def as_json(found: Measured) -> dict[str, Any]:
    """The same for programs."""
    return {
        "model": found.name,
        "size": found.size,
        "device": found.device,
        "mode": found.mode,
        "rows": found.knee.rows,
        "full": found.knee.full,
        "file": str(found.file),
        "timings": [{"rows": timing.rows, "step_s": timing.seconds} for timing in found.knee.timings],
    }


def draw(found: Measured) -> Table:
    """Step time and pictures a second by rows, the choice marked."""
    from rich.table import Table

    best = min(timing.per_row for timing in found.knee.timings)
    table = Table("rows", "ms a step", "rows a second", "of the best", "", box=None, pad_edge=False)
    table.title = f"{found.name} at {found.size} on {found.device}, {found.mode}"
    for timing in found.knee.timings:
        chosen = timing.rows == found.knee.rows
        share = best / timing.per_row
        bar = "█" * round(20 * share)
        table.add_row(
            str(timing.rows),
            f"{1e3 * timing.seconds:.1f}",
            f"{1 / timing.per_row:.1f}",
            f"[{'bold green' if chosen else 'dim'}]{bar:<20}[/] {share:.0%}",
            "← chosen" if chosen else "",
        )
    notes = ["more rows did not fit into memory"] if found.knee.full else []
    if _noisy(found.knee):
        notes.append("a larger batch was faster than a smaller one: something else used the device. Measure again")
    table.caption = "; ".join(notes) or None
    return table


def _noisy(knee: Knee) -> bool:
    """Whether a step of more rows took clearly less time than one of fewer: no device does that by itself."""
    pairs = zip(knee.timings, knee.timings[1:], strict=False)
    return any(more.seconds < 0.9 * fewer.seconds for fewer, more in pairs)
