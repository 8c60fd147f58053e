"""``safelight doctor --plan``: what each memory plan of a model would take, told without loading a weight."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safelight.cli.doctor.check import first_line
from safelight.cli.doctor.split import split_of
from safelight.cli.exits import CommandError, RefusedError
from safelight.config import ModelSettings, Settings, load_settings

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from actors.engine.memory.reports import Measured, Report
    from actors.engine.parallel.stages.telling import Graph

_UNITS = {"": 1, "M": 1_000_000, "MB": 1_000_000, "MIB": 2**20, "G": 10**9, "GB": 10**9, "GIB": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: None takes the settings' own, or what this machine has."""

    model: str | None = None
    size: str | None = None
    batch: int | None = None
    memory: str | None = None
    load: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came out, and what for."""

    name: str
    size: str
    batch: int
    device: str
    quantize: str
    wanted: str
    report: Report
    measured: Measured | None
    split: Graph | None = None


def answer(config: Path | None, question: Question) -> Answer:
    """Tell, and measure where that is asked. Raises ConfigError, CommandError."""
    settings = load_settings(config)
    name, model = chosen_model(settings, question.model)
    size = parse_size(question.size or model.usual_size, model.traits.size_multiple)
    batch = question.batch or model.max_batch or settings.engine.max_batch
    try:
        from actors.engine.errors import EngineError
        from actors.engine.memory.reports import measure, tell
    except ImportError as error:
        raise CommandError(f"a package is missing: {error}", "pip install 'safelight[worker]'") from error
    hush()
    device, room = _device(settings, question.memory)
    try:
        report = tell(model, device, size, batch, room)
        measured = measure(model, settings.engine, device, size, batch) if question.load else None
        graph = split_of(model, settings.worker.device, size, question.batch)
    except EngineError as error:
        raise CommandError(first_line(error)) from error
    return Answer(
        name=name,
        size=f"{size[0]}x{size[1]}",
        batch=batch,
        device=device.label,
        quantize=model.quantize,
        wanted=model.memory or settings.engine.memory,
        report=report,
        measured=measured,
        split=graph,
    )


def as_json(found: Answer) -> dict[str, Any]:
    """The same for programs; all sizes in bytes."""
    import dataclasses

    from actors.engine.memory.plans import PLANS, fits

    need = found.report.need
    told = {
        "model": found.name,
        "size": found.size,
        "batch": found.batch,
        "dtype": found.report.dtype,
        "quantize": found.quantize,
        "device": found.device,
        "memory": found.report.room,
        "weights": dataclasses.asdict(need.weights),
        "activations": dataclasses.asdict(need.activations),
        "traced": need.traced,
        "plans": {
            plan: {"peak": need.peak(plan), "fits": fits(need, plan, found.report.room)} for plan in PLANS
        },
        "auto": found.report.auto,
        "setting": found.wanted,
    }  # fmt: skip
    return told | {
        "measured": None if found.measured is None else dataclasses.asdict(found.measured),
        "split": None if found.split is None else found.split.as_json(),
    }


def parse_memory(text: str) -> int:
    """``24GB``, ``22.5GiB``, ``800MB`` in bytes. Raises RefusedError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not float(match[1]):
        raise RefusedError(f"--memory {text!r} is no size like 24GB or 22.5GiB")
    return int(float(match[1]) * unit)


def parse_size(text: str, multiple: int = 1) -> tuple[int, int]:
    """``1024x768`` in pixels, both multiples of so many. Raises RefusedError."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
    if match is None:
        raise RefusedError(f"--size {text!r} is no size like 1024x768")
    width, height = int(match[1]), int(match[2])
    if width % multiple or height % multiple:
        raise RefusedError(f"--size {text}: the model's sides are multiples of {multiple}")
    return width, height


def chosen_model(settings: Settings, wanted: str | None) -> tuple[str, ModelSettings]:
    """The model of that name or alias, else the default one. Raises RefusedError."""
    name = wanted or settings.default_model or next(iter(settings.models))
    found = settings.find_model(name)
    if found is None:
        raise RefusedError(f"--model {name!r} is not in the settings; known are {', '.join(settings.models)}")
    if found[1].provider is not None:
        raise RefusedError(f"--model {name!r} is remote: nothing of it is on this machine")
    return found


def _device(settings: Settings, memory: str | None) -> tuple[Device, int]:
    """The device that is planned for, and the bytes it has: a GPU that is imagined where its memory is given."""
    from actors.engine.devices import SIMULATED, Device, find_device
    from actors.engine.errors import ModelUnavailableError

    if memory is not None:
        return Device("cuda", f"a GPU with {memory}"), parse_memory(memory)
    try:
        device = find_device(settings.worker.device)
    except ModelUnavailableError as error:
        raise CommandError(first_line(error), "plan for a GPU that is not here with --memory 24GB") from error
    if device.kind == "cuda":
        from actors.engine.memory.planning import free_room

        return device, free_room(device)
    if device.kind == SIMULATED:
        device = Device("cpu", "cpu")
    return device, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def hush() -> None:
    """No warnings of libraries: the table says it all."""
    import diffusers
    import transformers

    for library in (diffusers, transformers):
        library.utils.logging.set_verbosity_error()
