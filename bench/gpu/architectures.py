"""The denoisers that are measured, in their true architectures with random weights, inside of bare pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from actors.engine.families import family_of
from actors.engine.families.base import Family, LatentRow
from actors.engine.request import RenderRequest
from safelight.config import ModelSettings

STEPS = 500
"""Of each row: more than are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A denoiser of so many billions of weights, its pipeline without text encoders, and the conditions of one text.

    ``kind`` is ``flux`` or ``sdxl``; ``denoiser`` and ``vae`` are arguments of their classes.
    """

    name: str
    kind: str
    denoiser: Mapping[str, Any]
    vae: Mapping[str, Any]
    text_length: int
    guidance: float
    encoders: Mapping[str, Any] = field(default_factory=dict)  # the arguments of the text encoders' configurations

    def pipeline(self, device: str, dtype: torch.dtype) -> Any:
        """A pipeline without text encoders and tokenizers; weights are drawn on the device."""
        with torch.device(device):
            return _built(dtype, lambda: _KINDS[self.kind](self))

    def family(self, pipeline: Any, device: str, dtype: torch.dtype) -> Family:
        """The engine's adapter of such a pipeline."""
        settings = ModelSettings(model=f"random/{self.name}", max_sequence_length=self.text_length)
        family = family_of(pipeline, settings, device, dtype)
        if family is None:
            raise TypeError(f"the engine has no family for {type(pipeline).__name__}")
        return family

    def embeds(self, device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """What text encoders would have made of a text: noise."""
        config = self.denoiser
        if self.kind == "flux":
            widths = {"prompt": config["joint_attention_dim"], "pooled": config["pooled_projection_dim"]}
        else:
            sizes = 6 * config["addition_time_embed_dim"]
            widths = {"prompt": config["cross_attention_dim"]}
            widths["pooled"] = config["projection_class_embeddings_input_dim"] - sizes
        return {
            "prompt": torch.randn(1, self.text_length, widths["prompt"], device=device, dtype=dtype),
            "pooled": torch.randn(1, widths["pooled"], device=device, dtype=dtype),
        }

    def request(self, side: int, count: int = 1) -> RenderRequest:
        """A request for ``count`` square pictures."""
        return RenderRequest(
            model=self.name,
            prompt="",
            width=side,
            height=side,
            steps=STEPS,
            seeds=tuple(range(count)),
            guidance=self.guidance,
        )

    def rows(self, family: Family, side: int, count: int) -> list[LatentRow]:
        """So many rows at their first step."""
        request = self.request(side, count)
        embeds = self.embeds(str(family.device), family.dtype)
        return family.rows(request, family.conditions(request, lambda _text: embeds))


def _built(dtype: torch.dtype, build: Callable[[], Any]) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        pipeline = build()
    finally:
        torch.set_default_dtype(before)
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.eval().requires_grad_(requires_grad=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _flux(architecture: Architecture) -> Any:
    import diffusers

    with torch.device("cpu"):  # the engine keeps schedulers there
        scheduler = diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    return diffusers.FluxPipeline(
        scheduler=scheduler,
        vae=diffusers.AutoencoderKL(**architecture.vae),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        transformer=diffusers.FluxTransformer2DModel(**architecture.denoiser),
    )


def _sdxl(architecture: Architecture) -> Any:
    import diffusers

    with torch.device("cpu"):
        scheduler = diffusers.EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            timestep_spacing="leading",
            steps_offset=1,
        )
    return diffusers.StableDiffusionXLPipeline(
        scheduler=scheduler,
        vae=diffusers.AutoencoderKL(**architecture.vae),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        unet=diffusers.UNet2DConditionModel(**architecture.denoiser),
        add_watermarker=False,
    )


_KINDS: dict[str, Callable[[Architecture], Any]] = {"flux": _flux, "sdxl": _sdxl}


def _vae(channels: int, widths: tuple[int, ...], groups: int, layers: int) -> dict[str, Any]:
    return {
        "latent_channels": channels,
        "block_out_channels": widths,
        "norm_num_groups": groups,
        "layers_per_block": layers,
        "down_block_types": ("DownEncoderBlock2D",) * len(widths),
        "up_block_types": ("UpDecoderBlock2D",) * len(widths),
        "shift_factor": 0.0,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    }


_FLUX: dict[str, Any] = {
    "num_layers": 19,
    "num_single_layers": 38,
    "num_attention_heads": 24,
    "attention_head_dim": 128,
    "joint_attention_dim": 4096,
    "pooled_projection_dim": 768,
    "in_channels": 64,
    "guidance_embeds": True,
}
_SDXL: dict[str, Any] = {
    "sample_size": 128,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "block_out_channels": (320, 640, 1280),
    "attention_head_dim": (5, 10, 20),
    "transformer_layers_per_block": (1, 2, 10),
    "cross_attention_dim": 2048,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
_ENCODERS = {
    "clip": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "t5": {"d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24},
}
_TRUE_VAE = ((128, 256, 512, 512), 32, 2)
_TINY_VAE = ((8, 8, 8, 8), 4, 1)

TRUE = {
    "flux": Architecture(
        name="flux",
        kind="flux",
        denoiser=_FLUX,
        vae=_vae(16, *_TRUE_VAE),
        text_length=512,
        guidance=3.5,
        encoders=_ENCODERS,
    ),
    "sdxl": Architecture(
        name="sdxl", kind="sdxl", denoiser=_SDXL, vae=_vae(4, *_TRUE_VAE), text_length=77, guidance=5.0
    ),
    "small": Architecture(
        name="small",
        kind="flux",
        denoiser={**_FLUX, "num_layers": 4, "num_single_layers": 8, "num_attention_heads": 8},
        vae=_vae(16, *_TRUE_VAE),
        text_length=128,
        guidance=3.5,
    ),
}
"""FLUX.1-dev's transformer (11.9 billion weights), SDXL's UNet (2.6), and a transformer like FLUX's of 0.3."""

_TINY_FLUX: dict[str, Any] = {
    "num_layers": 1,
    "num_single_layers": 1,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "joint_attention_dim": 8,
    "pooled_projection_dim": 8,
    "in_channels": 64,
    "guidance_embeds": True,
    "axes_dims_rope": (2, 2, 4),
}
_TINY_SDXL: dict[str, Any] = {
    **_SDXL,
    "block_out_channels": (32, 32, 32),
    "attention_head_dim": (2, 2, 2),
    "transformer_layers_per_block": (1, 1, 1),
    "layers_per_block": 1,
    "cross_attention_dim": 16,
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 64,
}

TINY = {
    "flux": Architecture(
        name="flux",
        kind="flux",
        denoiser=_TINY_FLUX,
        vae=_vae(16, *_TINY_VAE),
        text_length=6,
        guidance=3.5,
        encoders={
            "clip": {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
            "t5": {"d_model": 8, "d_ff": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1},
        },
    ),
    "sdxl": Architecture(
        name="sdxl", kind="sdxl", denoiser=_TINY_SDXL, vae=_vae(4, *_TINY_VAE), text_length=7, guidance=5.0
    ),
    "small": Architecture(
        name="small",
        kind="flux",
        denoiser={**_TINY_FLUX, "num_layers": 0},  # one kind of block: half the compiling
        vae=_vae(16, *_TINY_VAE),
        text_length=6,
        guidance=3.5,
    ),
}
"""The same kinds of a size that a CPU runs in milliseconds."""
