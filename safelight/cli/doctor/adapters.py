"""Checks of LoRA adapters: each is here, and is for the model that the settings give it to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from safelight.cli.doctor.check import Check, fail, first_line, ok, warn
from safelight.config import AdapterSettings, ModelSettings

if TYPE_CHECKING:
    from actors.engine.adapters import LoraAdapters

_UNTOLD = "its layers go by names that tell only when it is used"


def check_adapters(name: str, model: ModelSettings) -> Iterator[Check]:
    """One row for the adapters of a model that fit, and one for each that doesn't.

    They are held against the layers that the model's configuration names: no weight of it is read.
    """
    if not model.adapters:
        return
    try:
        adapters = _over_skeleton(model)
    except (
        Exception
    ) as error:  # whatever a library makes of a configuration; the model's own row says what is to be done
        yield warn(f"adapters {name}", f"not looked at: {first_line(error)}")
        return
    fitting = []
    for each, adapter in sorted(model.adapters.items()):
        found = _check(f"adapter {name}/{each}", each, adapter, adapters)
        if isinstance(found, Check):
            yield found
        else:
            fitting.append(f"{each} ({found})" if found else each)
    if fitting:
        yield ok(f"adapters {name}", f"{', '.join(fitting)}: for this model, not loaded")


def _over_skeleton(model: ModelSettings) -> LoraAdapters:
    import torch

    from actors.engine.adapters import make_adapters
    from actors.engine.memory.skeletons import build_skeleton
    from safelight.cli.doctor.plan import hush

    hush()
    return make_adapters(build_skeleton(model, torch.float32), model)


def _check(title: str, name: str, adapter: AdapterSettings, adapters: LoraAdapters) -> Check | str:
    """What is wrong with it; or else what there is to be said of one that may be used."""
    from actors.engine.errors import EngineError, ModelUnavailableError

    try:
        return "" if adapters.inspect(name) else _UNTOLD
    except ModelUnavailableError as error:
        if Path(adapter.path).is_absolute():
            return fail(title, first_line(error), "put the file back, or take it out of the settings")
        return warn(
            title, f"{adapter.path} is not downloaded yet", "it is fetched when its model is loaded; --load does so now"
        )
    except EngineError as error:
        return fail(title, first_line(error), "point its path to a file for this model, or take it out of the settings")
