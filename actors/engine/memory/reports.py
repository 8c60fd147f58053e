"""What each memory plan of a model would take on a device, for people: told beforehand, and measured beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.distributed._tools.common_utils import get_untyped_storages

from actors.engine.devices import Device, choose_dtype
from actors.engine.families import family_of
from actors.engine.loading import explained, load_placed
from actors.engine.memory.estimates import Estimator, trial_request
from actors.engine.memory.meters import CudaPeak, TrackedPeak
from actors.engine.memory.parts import decoders, denoisers, text_encoders
from actors.engine.memory.plans import Activations, Need, Plan, choose
from actors.engine.memory.skeletons import build_skeleton
from actors.engine.memory.walk import walk

if TYPE_CHECKING:
    from safelight.config import EngineSettings, ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``room`` is in bytes; ``auto`` is the plan that is taken for it."""

    need: Need
    auto: Plan
    room: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a loaded model took, under ``plan``: bytes of its parts and beside them."""

    plan: Plan
    encoders: int
    denoiser: int
    vae: int
    activations: Activations


def tell(model: ModelSettings, device: Device, size: tuple[int, int], batch: int, room: int) -> Report:
    """What a batch of a size takes by every plan. No weights are read, and the device is not used.

    Raises ModelUnavailableError where the model's configuration can't be read.
    """
    dtype = choose_dtype(model, device)
    with explained(model, device):
        estimator = Estimator(build_skeleton(model, dtype), model, device)
    auto = choose(lambda rows: estimator.need(*size, rows), room, batch) if device.kind == "cuda" else "resident"
    return Report(need=estimator.need(*size, batch), auto=auto, room=room, dtype=str(dtype).removeprefix("torch."))


def measure(
    model: ModelSettings, engine: EngineSettings, device: Device, size: tuple[int, int], batch: int
) -> Measured | None:
    """Load the model and do once what ``tell`` imagines; None where no family steps it.

    Raises ModelUnavailableError, OutOfMemoryError, and what the device raises.
    """
    loaded = load_placed(model, engine, device)
    family = family_of(loaded.pipeline, model, device.place, choose_dtype(model, device))
    if family is None:
        return None
    meter = (lambda: CudaPeak(device.place)) if device.kind == "cuda" else TrackedPeak
    activations = walk(family, trial_request(model, *size), batch, loaded.places, meter)
    parts = (text_encoders, denoisers, decoders)
    encoders, denoiser, vae = (_stored(part(loaded.pipeline)) for part in parts)
    loaded.release()
    return Measured(plan=loaded.plan, encoders=encoders, denoiser=denoiser, vae=vae, activations=activations)


def _stored(modules: dict[str, torch.nn.Module]) -> int:
    """Bytes of all storages, each once; a quantised weight has several."""
    tensors = [tensor for module in modules.values() for tensor in (*module.parameters(), *module.buffers())]
    storages = {id(storage): storage for tensor in tensors for storage in get_untyped_storages(tensor)}
    return sum(storage.nbytes() for storage in storages.values())
