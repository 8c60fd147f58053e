"""Starts a model's ranks, and makes what stands in for its denoiser in the engine's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from actors.engine.devices import choose_dtype
from actors.engine.families.base import Inputs
from actors.engine.loading import explained
from actors.engine.parallel.denoisers import find_denoiser, stand_in
from actors.engine.parallel.group import Group
from actors.engine.parallel.kinds import KINDS, plan_of
from actors.engine.parallel.passes import RankPasses
from actors.engine.parallel.seats import devices_of
from actors.engine.parallel.supervising import Ranks

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import EngineSettings, ModelSettings, ParallelSettings


@dataclass(frozen=True, slots=True)
class Spread:
    """A model's running ranks. ``parts`` take the place of the pipeline's own when it is loaded."""

    ranks: Ranks
    passes: RankPasses
    parts: dict[str, Any]


def spread(
    name: str,
    model: ModelSettings,
    parallel: ParallelSettings,
    engine: EngineSettings,
    device: Device,
    on_progress: Callable[[], None],
) -> Spread:
    """Start the ranks of a model, which then hold its denoiser.

    Raises ModelUnavailableError, OutOfMemoryError, DeviceLostError; no process is left then.
    """
    with explained(model, device):
        found = find_denoiser(model)
        devices = devices_of(parallel, device)
        plan = plan_of(parallel)
        plan.check(found)
    ranks = Ranks(
        name, plan, lambda: Group(model, parallel, engine, devices, KINDS[parallel.kind].program, on_progress), device
    )

    def call(*args: Any, **arguments: Any) -> tuple[torch.Tensor]:
        """What a whole pipeline's call of the denoiser comes to."""
        if args:
            arguments |= dict(zip(_names(found.kind), args, strict=False))
        arguments.pop("return_dict", None)
        return (ranks.run([Inputs({}, arguments)], None)[0],)

    ranks.start()
    try:
        with explained(model, device):
            part = stand_in(found, choose_dtype(model, device), call)
    except BaseException:
        ranks.close()
        raise
    return Spread(ranks, RankPasses(ranks, parallel.label), {found.name: part})


def _names(kind: Any) -> list[str]:
    """The names of the denoiser's arguments, in order."""
    import inspect

    return list(inspect.signature(kind.forward).parameters)[1:]
