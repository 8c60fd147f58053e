"""A denoiser with the weights of some of its blocks: no other is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch

from actors.engine.loading import source_of
from actors.engine.memory.quantizing import torchao_hushed
from actors.engine.parallel.denoisers import load_denoiser
from actors.engine.parallel.stages.tracing import blocks_of

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from actors.engine.parallel.denoisers import Denoiser
    from safelight.config import ModelSettings

_WEIGHTS = "diffusion_pytorch_model"


def empty_denoiser(found: Denoiser, dtype: torch.dtype, *, buffers: bool) -> torch.nn.Module:
    """The denoiser with its weights on ``meta``, and with ``buffers`` those as well: for looking at."""
    from accelerate import init_empty_weights  # type: ignore[import-untyped]

    with torchao_hushed(), init_empty_weights(include_buffers=buffers):
        module: torch.nn.Module = found.kind.from_config(found.config)
    return module.to(dtype).eval().requires_grad_(False)


def read_share(
    found: Denoiser, model: ModelSettings, device: Device, dtype: torch.dtype, blocks: frozenset[str]
) -> torch.nn.Module:
    """The denoiser on the CPU with the weights of these blocks, and of what is in no block; all others on ``meta``.

    Where the files are not safetensors, or name weights in a way of old, everything is read once and then let go.
    """
    module = empty_denoiser(found, dtype, buffers=False)
    others = tuple(f"{name}." for name, _ in blocks_of(module) if name not in blocks)
    wanted = {name for name in module.state_dict() if not name.startswith(others)}
    weights: dict[str, torch.Tensor] = {}
    for file in _files(found, model):
        weights |= _read(file, wanted, dtype)
    if set(weights) >= {name for name in wanted if module.state_dict()[name].is_meta}:
        module.load_state_dict(weights, strict=False, assign=True)
        return module.requires_grad_(False)
    whole = load_denoiser(found, msgspec.structs.replace(model, quantize="none"), device)
    return _without(whole, others)


def _read(file: Path, wanted: set[str], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as weights:
        names = [name for name in weights.keys() if name in wanted]  # noqa: SIM118 (it is no mapping)
        tensors = {name: weights.get_tensor(name) for name in names}
    return {name: one.to(dtype) if one.is_floating_point() else one for name, one in tensors.items()}


def _files(found: Denoiser, model: ModelSettings) -> Iterator[Path]:
    """The safetensors files of the denoiser; none where it has others. A hub model's are fetched."""
    folder = Path(model.model)
    if not folder.is_absolute():
        from huggingface_hub import snapshot_download

        revision = source_of(model).get("revision")
        folder = Path(snapshot_download(model.model, revision=revision, allow_patterns=[f"{found.name}/*"]))
    folder /= found.name
    variant = f".{model.variant}" if model.variant else ""
    single = folder / f"{_WEIGHTS}{variant}.safetensors"
    index = folder / f"{_WEIGHTS}.safetensors.index{variant}.json"
    if single.is_file():
        yield single
    elif index.is_file():
        for name in sorted(set(json.loads(index.read_text())["weight_map"].values())):
            yield folder / name


def _without(module: torch.nn.Module, others: tuple[str, ...]) -> torch.nn.Module:
    """The module without the weights whose names begin so."""
    for name, parameter in list(module.named_parameters()):
        if name.startswith(others):
            parent, _, child = name.rpartition(".")
            empty = torch.nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)
            module.get_submodule(parent).register_parameter(child, empty)
    return module
