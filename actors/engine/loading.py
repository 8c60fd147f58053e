"""Brings a diffusers pipeline from a folder or the hub onto the device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.engine.devices import causes, choose_dtype, is_device_lost, is_out_of_memory
from actors.engine.errors import ModelUnavailableError, OutOfMemoryError
from actors.engine.memory.plans import graphs_allowed

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from actors.engine.latent import Places
    from actors.engine.memory.plans import Plan
    from safelight.config import EngineSettings, ModelSettings


_FOLDERS = re.compile(r"(?<![:/\w])(?:/[\w.@+-]+)+/(?=[\w.@+-])")


@dataclass(slots=True)
class Loaded:
    """A pipeline in its places, ready to be called.

    ``places`` brings the parts that come and go; ``graphs_allowed`` says whether its denoiser stays where it is, as
    CUDA graphs and fullgraph compiling want.
    """

    pipeline: Any
    places: Places
    plan: Plan

    @property
    def graphs_allowed(self) -> bool:
        """Whether the plan goes with CUDA graphs."""
        return graphs_allowed(self.plan)

    def release(self) -> None:
        """Take off what moves the parts: their memory then goes with the pipeline."""
        from actors.engine.memory.placing import remove_hooks

        remove_hooks(self.pipeline)


def load_placed(
    model: ModelSettings, engine: EngineSettings, device: Device, parts: Mapping[str, Any] = MappingProxyType({})
) -> Loaded:
    """A pipeline whose parts lie where its memory plan wants them, its denoiser quantised as the settings say.

    ``parts`` take the place of the pipeline's own: stand-ins for a denoiser that lies elsewhere (parallel/).
    Raises ModelUnavailableError, which says what to do about it, and OutOfMemoryError.
    """
    with explained(model, device):
        pipeline = _read(model, device, parts)
        return _placed(pipeline, model, engine, device, elsewhere=bool(parts))


def _placed(pipeline: Any, model: ModelSettings, engine: EngineSettings, device: Device, *, elsewhere: bool) -> Loaded:
    import torch
    from diffusers import AutoencoderKL

    from actors.engine.families import family_of
    from actors.engine.memory.placing import place
    from actors.engine.memory.planning import plan_beside, plan_for
    from actors.engine.memory.quantizing import quantize_denoiser

    dtype = choose_dtype(model, device)
    plan = plan_beside(model, engine) if elsewhere else plan_for(pipeline, model, engine, device)
    if not elsewhere:
        quantize_denoiser(pipeline, model.quantize, dtype)
    if device.kind == "cpu" and isinstance(getattr(pipeline, "vae", None), AutoencoderKL):
        vae: torch.nn.Module = pipeline.vae
        vae.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its convolutions take a quarter less time
    stepped = family_of(pipeline, model, device.place, dtype) is not None
    return Loaded(pipeline, place(pipeline, plan, device, stepped=stepped), plan)


def _read(model: ModelSettings, device: Device, parts: Mapping[str, Any]) -> Any:
    """The pipeline on the CPU, with these parts instead of its own. Its own progress bars are off."""
    import diffusers
    import transformers

    from actors.engine.memory.quantizing import torchao_hushed

    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()  # their warnings quote prompts
    with torchao_hushed():
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            model.model, dtype=choose_dtype(model, device), **source_of(model), **parts
        )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@contextmanager
def explained(model: ModelSettings, device: Device) -> Iterator[None]:
    """Turn whatever a loader raises into what the job needs to hear. A lost device is no matter of the model's."""
    try:
        yield
    except Exception as error:
        if is_device_lost(error):
            raise
        if is_out_of_memory(error):
            raise OutOfMemoryError(f"model {model.identity!r} does not fit into {device.label}'s memory") from error
        raise ModelUnavailableError(_advice(model, error)) from error


def source_of(model: ModelSettings) -> dict[str, Any]:
    """Variant and revision, as ``from_pretrained`` takes them. Raises ModelUnavailableError for a folder of no use."""
    folder = Path(model.model)
    if folder.is_dir():
        if not (folder / "model_index.json").is_file():
            raise ModelUnavailableError(
                f"folder {folder.name!r} holds no model_index.json: it is not in diffusers format"
            )
        return {"variant": model.variant}  # a folder has no branches; its revision is a digest of ours
    if folder.is_absolute():
        raise ModelUnavailableError(f"model folder {folder.name!r} is not there (any more)")
    return {"variant": model.variant, "revision": model.revision or None}


def _advice(model: ModelSettings, error: Exception) -> str:
    """What went wrong in words, by the first known error in the chain of causes."""
    from huggingface_hub import errors as hub

    advice: tuple[tuple[type[BaseException], str], ...] = (
        (ModelUnavailableError, str(error)),
        (hub.GatedRepoError, "it is gated: accept its licence on the hub and set HF_TOKEN"),
        (hub.RevisionNotFoundError, f"the hub has no revision {model.revision!r} of it"),
        (hub.RepositoryNotFoundError, "the hub has no such model, or it is private: check the id, set HF_TOKEN"),
        (hub.OfflineModeIsEnabled, "it is not in the local cache and HF_HUB_OFFLINE is set: download it first"),
        (hub.LocalEntryNotFoundError, "it is not in the local cache and the hub can't be reached"),
        (ImportError, f"a package is missing: {_first_line(error)}"),
        (OSError, f"its files can't be read, or the hub can't be reached: {_first_line(error)}"),
    )
    for kind, words in advice:
        if any(isinstance(cause, kind) for cause in causes(error)):
            return words if kind is ModelUnavailableError else f"model {model.identity!r} can't be loaded: {words}"
    return f"model {model.identity!r} can't be loaded: {type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    """What a library says, without the folders of this machine: clients read it."""
    line = str(error).strip().partition("\n")[0][:300]
    return _FOLDERS.sub("", line)
