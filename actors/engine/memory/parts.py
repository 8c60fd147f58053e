"""Which component of a pipeline is what to a memory plan, and how many bytes it has."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch

from actors.engine.memory.plans import Weights

_DENOISERS = ("transformer", "unet")
_SCALES = {"int8": 5, "float8": 4}  # bytes for each row of a weight: a float32 scale, for int8 a zero point too


def text_encoders(pipeline: Any) -> dict[str, torch.nn.Module]:
    """The modules that only prompts need, by name."""
    return _modules(pipeline, "text_encoder")


def decoders(pipeline: Any) -> dict[str, torch.nn.Module]:
    """The VAE, or what stands for it, by name."""
    return _modules(pipeline, "vae", "vqvae", "vqgan", "movq")


def denoisers(pipeline: Any) -> dict[str, torch.nn.Module]:
    """The transformer or UNet (some pipelines have two), by name."""
    return _modules(pipeline, *_DENOISERS)


def weights_of(pipeline: Any, quantize: str, *, streams: bool) -> Weights:
    """Bytes of a pipeline that is not quantised yet, as they will be. It may be made of meta tensors.

    ``streams``: whether a next block of a grouped denoiser comes while the one before it computes.
    """
    encoders, vae, den = text_encoders(pipeline), decoders(pipeline), denoisers(pipeline)
    stored = [_as_stored(module, quantize) for module in den.values()]
    known = {*encoders, *vae, *den}
    others = [module for name, module in _modules(pipeline, "").items() if name not in known]
    return Weights(
        encoders=_total(encoders.values()),
        denoiser=sum(quantized_bytes(module, quantize) for module in stored),
        vae=_total(vae.values()),
        others=_total(others),
        streamed=max((_streamed(module, quantize, streams) for module in stored), default=0),
    )


def module_bytes(module: torch.nn.Module) -> int:
    """Bytes of a module's parameters and buffers, each once."""
    return sum(tensor.nbytes for tensor in _tensors(module))


def quantized_bytes(module: torch.nn.Module, quantize: str) -> int:
    """Bytes of a denoiser once it is quantised: one for each value of a linear weight, and what each row needs."""
    if quantize not in _SCALES:
        return module_bytes(module)
    linear = [child.weight for child in module.modules() if isinstance(child, torch.nn.Linear)]
    saved = sum(weight.nbytes - weight.numel() - _SCALES[quantize] * weight.shape[0] for weight in linear)
    return module_bytes(module) - saved


def largest_linear(pipeline: Any) -> int:
    """Bytes of the denoiser's largest linear weight: a quantised one is unpacked to that when its layer computes."""
    layers = [layer for module in denoisers(pipeline).values() for layer in module.modules()]
    return max((layer.weight.nbytes for layer in layers if isinstance(layer, torch.nn.Linear)), default=0)


def _as_stored(module: torch.nn.Module, quantize: str) -> torch.nn.Module:
    """A denoiser as layerwise casting would store it, without its weights; otherwise as it is."""
    if not quantize.startswith("layerwise"):
        return module
    memo: dict[int, Any] = {id(weight): torch.empty_like(weight, device="meta") for weight in module.buffers()}
    for weight in module.parameters():
        memo[id(weight)] = torch.nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=False)
    stored = copy.deepcopy(module, memo)
    stored.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.float32)  # type: ignore[operator]
    return stored


def _streamed(module: torch.nn.Module, quantize: str, streams: bool) -> int:
    """What lies outside the blocks, and one block or two: the one that computes and the one that comes next."""
    lists = [child for child in module.children() if isinstance(child, torch.nn.ModuleList | torch.nn.Sequential)]
    blocks = [quantized_bytes(block, quantize) for blocks in lists for block in blocks]
    outside = quantized_bytes(module, quantize) - sum(blocks)
    return outside + sum(sorted(blocks, reverse=True)[: 2 if streams else 1])


def _modules(pipeline: Any, *prefixes: str) -> dict[str, torch.nn.Module]:
    return {
        name: component
        for name, component in pipeline.components.items()
        if isinstance(component, torch.nn.Module) and name.startswith(prefixes)
    }


def _total(modules: Iterable[torch.nn.Module]) -> int:
    return sum(module_bytes(module) for module in modules)


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]
