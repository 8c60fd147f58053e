"""Which passes a denoiser gets on a device, by the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from actors.engine.compiled.capture import CudaCapture
from actors.engine.compiled.graphs import GraphedPasses
from actors.engine.compiled.regional import Regional
from actors.engine.devices import Device
from actors.engine.observer import Observer
from actors.engine.passes import Eager, Passes
from actors.engine.stepping import Adapters

if TYPE_CHECKING:
    from safelight.config import EngineSettings

# Above it a CPU's memory is worth more than the speed: frozen weights are held twice.
_FROZEN_BYTES = 4_000_000_000


def make_passes(
    denoiser: torch.nn.Module,
    device: Device,
    settings: EngineSettings,
    observer: Observer,
    model: str,
    *,
    max_batch: int | None = None,
    use: Callable[[Adapters], None] | None = None,
    streamed: bool = False,
) -> Passes:
    """Passes of a denoiser that lies on the device.

    ``max_batch`` is the model's own, where it has one: larger batches get no graph. ``use`` lets LoRA adapters act
    (``AdapterSet.use``), where the model has any. ``streamed`` says that its weights come and go during a pass (group
    offloading): then passes are eager, as hooks break fullgraph code and a graph would read memory that is somebody
    else's by then.
    """
    if streamed:
        return Eager(denoiser)
    if not _compiles(settings, device):
        passes: Passes = Eager(denoiser)
    else:
        passes = Regional(denoiser, model, frozen=device.kind == "cpu" and use is None and _can_freeze(denoiser))
    if device.kind != "cuda" or settings.graphs == "off" or settings.graphs_mb == 0:
        return passes
    return GraphedPasses(
        denoiser=denoiser,
        otherwise=passes,
        capture=CudaCapture(device.place),
        device=torch.device(device.place),
        model=model,
        observer=observer,
        limit_bytes=settings.graphs_mb * 1_000_000,
        max_batch=max_batch or settings.max_batch,
        use=use,
    )


def _can_freeze(denoiser: torch.nn.Module) -> bool:
    """Whether packed copies of the weights are affordable and possible: quantised weights are no plain tensors."""
    weights = list(denoiser.parameters())
    plain = all(type(weight.data) is torch.Tensor for weight in weights)
    return plain and sum(weight.nbytes for weight in weights) <= _FROZEN_BYTES


def _compiles(settings: EngineSettings, device: Device) -> bool:
    """``auto`` compiles on CUDA alone: on a CPU compiling takes a minute and gains little."""
    return settings.compile == "regional" or (settings.compile == "auto" and device.kind == "cuda")
