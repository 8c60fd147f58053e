"""Brings a diffusers pipeline from a folder or the hub onto the device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.engine.devices import choose_dtype, is_out_of_memory
from actors.engine.errors import ModelUnavailableError, OutOfMemoryError

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from safelight.config import ModelSettings


_FOLDERS = re.compile(r"(?<![:/\w])(?:/[\w.@+-]+)+/(?=[\w.@+-])")


def load_pipeline(model: ModelSettings, device: Device) -> Any:
    """A pipeline on the device, ready to be called. Its own progress bars are off.

    Raises ModelUnavailableError, which says what to do about it, and OutOfMemoryError.
    """
    import diffusers
    import transformers

    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()  # their warnings quote prompts
    try:
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            model.model, dtype=choose_dtype(model, device), **_source(model)
        )
        pipeline.to(device.place)
    except Exception as error:  # whatever a loader raises, the job needs to hear what to do about it
        if is_out_of_memory(error):
            raise OutOfMemoryError(f"model {model.identity!r} does not fit into {device.label}'s memory") from error
        raise ModelUnavailableError(_advice(model, error)) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _source(model: ModelSettings) -> dict[str, Any]:
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
        if any(isinstance(cause, kind) for cause in _causes(error)):
            return words if kind is ModelUnavailableError else f"model {model.identity!r} can't be loaded: {words}"
    return f"model {model.identity!r} can't be loaded: {type(error).__name__}: {_first_line(error)}"


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _first_line(error: BaseException) -> str:
    """What a library says, without the folders of this machine: clients read it."""
    line = str(error).strip().partition("\n")[0][:300]
    return _FOLDERS.sub("", line)
