"""Pipelines without weights: built from their configurations, enough to tell what the real ones would need."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from actors.engine.errors import ModelUnavailableError

if TYPE_CHECKING:
    from safelight.config import ModelSettings

_SMALL_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]  # configurations and tokenizers


def build_skeleton(model: ModelSettings, dtype: torch.dtype) -> Any:
    """The model's pipeline with weights on the ``meta`` device, in ``dtype``: no weight is read or made.

    A hub model's configurations are fetched where they are not there yet. Raises ModelUnavailableError.
    """
    import diffusers

    folder = _folder(model)
    index = json.loads((folder / "model_index.json").read_text())
    kind = getattr(diffusers, index["_class_name"], None)
    if kind is None:
        raise ModelUnavailableError(f"diffusers knows no {index['_class_name']}, which {model.identity!r} asks for")
    named = {name: value for name, value in index.items() if not name.startswith("_")}
    components = {
        name: _component(folder / name, value, dtype) if isinstance(value, list) else value
        for name, value in named.items()
    }
    return kind(**components)


class Imagined(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Fake tensors that answer when they are asked for their value: 1, which is true."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As every fake tensor, but for the value that it has not got."""
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except DataDependentOutputException:
            if func is not torch.ops.aten._local_scalar_dense.default:
                raise
            kind = args[0].dtype
            return True if kind == torch.bool else 1.0 if kind.is_floating_point else 1


def fake_twin(pipeline: Any, mode: FakeTensorMode) -> Any:
    """A copy of a pipeline whose weights are fake tensors of ``mode`` on the CPU; nothing else is changed."""
    twin = copy.copy(pipeline)
    for name, component in pipeline.components.items():
        if isinstance(component, torch.nn.Module):
            setattr(twin, name, copy.deepcopy(component, _fakes(component, mode)))
    if hasattr(twin, "_extract_masked_hidden"):  # Qwen-Image's: a fake mask can't tell how many tokens it lets through
        twin._extract_masked_hidden = lambda hidden, _mask: tuple(hidden)
    return twin


def _fakes(module: torch.nn.Module, mode: FakeTensorMode) -> dict[int, Any]:
    """What ``deepcopy`` is to put in the place of each weight, by the weight's id."""
    memo: dict[int, Any] = {}
    with mode:
        for parameter in module.parameters():
            memo[id(parameter)] = torch.nn.Parameter(_fake(parameter), requires_grad=False)
        for buffer in module.buffers():
            memo[id(buffer)] = _fake(buffer)
    return memo


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


def _folder(model: ModelSettings) -> Path:
    folder = Path(model.model)
    if not folder.is_absolute():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(model.model, revision=model.revision or None, allow_patterns=_SMALL_FILES))
    if not (folder / "model_index.json").is_file():
        raise ModelUnavailableError(f"folder {folder.name!r} holds no model_index.json: it is not in diffusers format")
    return folder


def _component(folder: Path, named: list[Any], dtype: torch.dtype) -> Any:
    """One component of ``model_index.json``: a model on ``meta``, anything else as it is."""
    import diffusers
    import transformers
    from accelerate import init_empty_weights  # type: ignore[import-untyped]

    library, name = named
    if name is None:
        return None
    kind = getattr({"diffusers": diffusers, "transformers": transformers}.get(library), name, None)
    if kind is None:
        raise ModelUnavailableError(f"part {folder.name!r} is a {library}.{name}, which is not to be had here")
    if not issubclass(kind, torch.nn.Module):
        return kind.from_pretrained(folder)
    with init_empty_weights():
        if library == "diffusers":
            return kind.from_config(kind.load_config(folder)).to(dtype).eval()
        module = kind(kind.config_class.from_pretrained(folder)).to(dtype).eval()
    module.tie_weights()  # a weight of two names counts once
    return module
