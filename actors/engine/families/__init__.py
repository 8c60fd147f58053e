"""Model families that step: each follows one diffusers pipeline, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.engine.families.base import Family
from actors.engine.families.flux import Flux
from actors.engine.families.qwen import QwenImage
from actors.engine.families.sd3 import StableDiffusion3
from actors.engine.families.unet import StableDiffusion, StableDiffusionXL

if TYPE_CHECKING:
    import torch

    from safelight.config import ModelSettings

# By the name of the pipeline's class, not by the settings' family: the class says what its parts are.
_BY_PIPELINE: dict[str, type[Family]] = {
    "FluxPipeline": Flux,
    "QwenImagePipeline": QwenImage,
    "StableDiffusion3Pipeline": StableDiffusion3,
    "StableDiffusionPipeline": StableDiffusion,
    "StableDiffusionXLPipeline": StableDiffusionXL,
}


def family_kind(pipeline: str) -> type[Family] | None:
    """The family that steps pipelines of such a class; None where there is none."""
    return _BY_PIPELINE.get(pipeline)


def family_of(pipeline: Any, settings: ModelSettings, device: str, dtype: torch.dtype) -> Family | None:
    """The family that steps such a pipeline; None where there is none, and it is to be run whole."""
    kind = family_kind(type(pipeline).__name__)
    return None if kind is None else kind(pipeline, settings, device, dtype)
