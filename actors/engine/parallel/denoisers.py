"""A model's denoiser alone: found in its files, loaded by a rank, and stood in for where the ranks hold it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from actors.engine.devices import choose_dtype
from actors.engine.errors import ModelUnavailableError
from actors.engine.loading import source_of
from actors.engine.memory.quantizing import quantize_denoiser, torchao_hushed

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import ModelSettings

_NAMES = ("transformer", "unet")


@dataclass(frozen=True, slots=True)
class Denoiser:
    """What a model's files say: the part's name, its class, its configuration, and the class of the pipeline."""

    name: str
    kind: Any
    config: dict[str, Any]
    pipeline: str


def find_denoiser(model: ModelSettings) -> Denoiser:
    """The denoiser of a model, without reading a weight. Raises ModelUnavailableError, and what the hub raises."""
    with torchao_hushed():
        import diffusers

    source = source_of(model)
    index = diffusers.DiffusionPipeline.load_config(model.model, revision=source.get("revision"))
    parts = [name for name, part in index.items() if name.startswith(_NAMES) and isinstance(part, list) and part[1]]
    if len(parts) != 1:
        what = f"{' and '.join(parts)}" if parts else "no transformer and no UNet"
        raise ModelUnavailableError(f"parallel: {model.identity!r} has {what}; one denoiser can be spread")
    library, kind = index[parts[0]]
    if library != "diffusers" or not hasattr(diffusers, kind):
        raise ModelUnavailableError(f"parallel: the denoiser of {model.identity!r} is a {library}.{kind}")
    found = getattr(diffusers, kind)
    config = dict(found.load_config(model.model, subfolder=parts[0], revision=source.get("revision")))
    return Denoiser(parts[0], found, config, str(index["_class_name"]))


def load_denoiser(found: Denoiser, model: ModelSettings, device: Device) -> torch.nn.Module:
    """The denoiser on a device, in the model's number format, quantised as its settings say."""
    dtype = choose_dtype(model, device)
    with torchao_hushed():
        module: torch.nn.Module = found.kind.from_pretrained(
            model.model, subfolder=found.name, torch_dtype=dtype, **source_of(model)
        )
    quantize_denoiser(SimpleNamespace(components={found.name: module}), model.quantize, dtype)
    return module.to(device.place).eval().requires_grad_(False)


def stand_in(found: Denoiser, dtype: torch.dtype, forward: Callable[..., Any]) -> torch.nn.Module:
    """A denoiser of the same class and configuration without a weight; whoever calls it calls ``forward``.

    Pipelines ask their denoiser for settings, shapes of layers and its number format: all that is there.
    """
    from accelerate import init_empty_weights  # type: ignore[import-untyped]

    with init_empty_weights():
        module: torch.nn.Module = found.kind.from_config(found.config)
    for child in module.modules():
        for tensors in (child._parameters, child._buffers):
            tensors.update(dict.fromkeys(tensors, None))
    module.register_parameter("stands_in", torch.nn.Parameter(torch.empty(0, dtype=dtype), requires_grad=False))
    module.forward = forward
    return module.eval()
