"""What a denoiser is given in a trial: tensors of the shapes of a render, made up without a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from actors.engine.parallel.denoisers import Denoiser
    from safelight.config import ModelSettings

_VAE = 8  # pixels a side of a latent: of all families that are cut
_CLIP, _T5 = 77, 512  # tokens of a text where nothing else is said
_SD3_T5 = 256
_SIZES = 6  # numbers that tell SDXL a picture's sizes


def trial(
    found: Denoiser, model: ModelSettings, dtype: torch.dtype, size: tuple[int, int], rows: int = 1
) -> dict[str, Any]:
    """Arguments of one pass for so many pictures of a size; on ``meta``, so that they take no memory.

    Where guidance asks the denoiser twice there are twice as many rows.
    """
    config = found.config
    width, height = size[0] // _VAE, size[1] // _VAE
    if found.kind.__name__ != "FluxTransformer2DModel" and not _unguided(model):
        rows *= 2

    def tensor(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    if found.kind.__name__ == "UNet2DConditionModel":
        given: dict[str, Any] = {
            "sample": tensor(rows, config["in_channels"], height, width),
            "timestep": tensor(rows).float(),
            "encoder_hidden_states": tensor(rows, _CLIP, config["cross_attention_dim"]),
        }
        if config.get("addition_embed_type") == "text_time":
            pooled = config["projection_class_embeddings_input_dim"] - _SIZES * config["addition_time_embed_dim"]
            given["added_cond_kwargs"] = {"text_embeds": tensor(rows, pooled), "time_ids": tensor(rows, _SIZES)}
        return given
    flux = found.kind.__name__ == "FluxTransformer2DModel"
    tokens = model.max_sequence_length or (_T5 if flux else _SD3_T5)
    text = tokens if flux else tokens + _CLIP
    given = {
        "timestep": tensor(rows),
        "encoder_hidden_states": tensor(rows, text, config["joint_attention_dim"]),
        "pooled_projections": tensor(rows, config["pooled_projection_dim"]),
    }
    if not flux:
        return {"hidden_states": tensor(rows, config["in_channels"], height, width), **given}
    patches = (height // 2) * (width // 2)
    given |= {
        "hidden_states": tensor(rows, patches, config["in_channels"]),
        "img_ids": tensor(patches, 3),
        "txt_ids": tensor(text, 3),
    }
    return given | ({"guidance": tensor(rows)} if config.get("guidance_embeds") else {})


def _unguided(model: ModelSettings) -> bool:
    return model.default_guidance is not None and model.default_guidance <= 1
