"""Checks of what renders: the libraries, the device and the models."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from safelight.cli.doctor.adapters import check_adapters
from safelight.cli.doctor.check import Check, Status, fail, first_line, ok, warn
from safelight.config import ModelSettings, Settings

if TYPE_CHECKING:
    from actors.engine import Engine

_LIBRARIES = ("torch", "diffusers", "transformers")
_SMALL_BYTES = 100 * 1024 * 1024
_LOAD_LIMIT_S = 600.0


def check_libraries() -> Check:
    """What the engine needs is installed."""
    found, missing = [], []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return warn(
            "libraries",
            f"{', '.join(missing)} not installed: this host can serve the API, not render",
            "pip install 'safelight[worker]'",
        )
    return ok("libraries", ", ".join(found))


def check_device(wanted: str) -> Check:
    """The device of the settings is there; how much memory it has."""
    from actors.engine.devices import find_device
    from actors.engine.errors import ModelUnavailableError

    try:
        device = find_device(wanted)
    except ImportError as error:
        return fail("device", f"a package is missing: {error}", "pip install 'safelight[worker]'")
    except ModelUnavailableError as error:
        return fail("device", first_line(error), "set [worker] device, or --device")
    if device.kind != "cuda":
        note = {"cpu": " (slow for large models)", "simulated": " (placeholders, no pictures)"}.get(device.kind, "")
        return ok("device", f"{device.label}{note}")
    import torch

    free, total = torch.cuda.mem_get_info(device.place)
    return ok("device", f"{device.label}, {free / 1e9:.0f} of {total / 1e9:.0f} GB free")


def check_models(settings: Settings, load: bool | None) -> Iterator[Check]:
    """Every model is there, and its adapters are for it; with ``load`` (None: small local ones) it renders one step."""
    from actors.engine import Engine

    engine: Engine | None = None
    try:
        local = {name: model for name, model in settings.models.items() if model.provider is None}
        for name, model in local.items():
            there = _is_there(f"model {name}", model)
            if there.status is not Status.FAIL and (_is_small(model) if load is None else load):
                if engine is None:
                    one = msgspec.structs.replace(settings.engine, loaded_models=1)
                    engine = Engine(local, settings.worker.device, settings=one)
                    engine.start()
                there = _renders(f"model {name}", name, model, engine)
            yield there
            if there.status is Status.OK:
                yield from check_adapters(name, model)
    finally:
        if engine is not None:
            engine.stop()


def check_lanes(settings: Settings) -> Check:
    """Every model's lane is served by a worker with these settings."""
    served = settings.with_remote_lanes() if settings.broker == "memory" else settings
    unserved = [lane for lane in settings.lanes if lane not in served.worker.lanes]
    if unserved:
        return warn(
            "lanes",
            f"no worker with these settings serves {', '.join(unserved)}: jobs of their models would wait",
            "add them to [worker] lanes, or start a worker with --lanes",
        )
    return ok("lanes", ", ".join(served.worker.lanes))


def _is_there(title: str, model: ModelSettings) -> Check:
    folder = Path(model.model)
    if folder.is_absolute():
        if not (folder / "model_index.json").is_file():
            advice = "point [models.*] model to a folder that holds model_index.json"
            return fail(title, f"{folder} is not a folder in diffusers format", advice)
        return ok(title, f"{folder}, not loaded")
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model.model, "model_index.json", revision=model.revision or None)
    if isinstance(cached, str):
        return ok(title, f"{model.model} in the hub's cache, not loaded")
    return warn(title, f"{model.model} is not downloaded yet", "the first job fetches it; --load does so now")


def _is_small(model: ModelSettings) -> bool:
    folder = Path(model.model)
    if not folder.is_absolute():
        return False
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < _SMALL_BYTES


def _renders(title: str, name: str, model: ModelSettings, engine: Engine) -> Check:
    from actors.engine import EngineError, RenderRequest

    width, height = (int(side) for side in _smallest(model).split("x"))
    request = RenderRequest(model=name, prompt="a test", width=width, height=height, steps=1, seeds=(0,))
    try:
        result = engine.submit(request).result(_LOAD_LIMIT_S)
    except TimeoutError:
        return fail(title, f"gave no picture within {_LOAD_LIMIT_S:.0f} s", "look at the log; try again with less load")
    except EngineError as error:
        return fail(title, first_line(error), "mend what the message names, or take the model out of the settings")
    return ok(title, f"{model.identity} renders on {result.device}: one step in {result.device_seconds:.2f} s")


def _smallest(model: ModelSettings) -> str:
    """The smallest size that the model takes, for a quick try."""
    if model.sizes:
        return min(model.sizes, key=lambda size: int(size.split("x")[0]) * int(size.split("x")[1]))
    multiple = model.traits.size_multiple
    side = -(-model.min_side // multiple) * multiple
    return f"{side}x{side}"
