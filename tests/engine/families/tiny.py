"""Pipelines of a few thousand random weights, one of each family, built from configurations: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLQwenImage,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoTokenizer,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    T5Config,
    T5EncoderModel,
)

from tests.engine.conftest import SCENES

WORDS = "a red green blue circle square triangle left right of above on the white background fog noise two big small"
_WIDTH = 16


def flux(*, guidance_embeds: bool = True, dynamic: bool = True) -> Any:
    """FLUX.1: ``guidance_embeds`` as in dev, without as in schnell."""
    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=_WIDTH, pooled_projection_dim=_WIDTH, axes_dims_rope=(4, 4, 8),
        guidance_embeds=guidance_embeds,
    )  # fmt: skip
    return _ready(
        FluxPipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=dynamic),
            vae=_vae(use_quant_conv=False, shift_factor=0.06),
            text_encoder=CLIPTextModel(_clip()),
            tokenizer=_tokenizer("tokenizer"),
            text_encoder_2=_t5(),
            tokenizer_2=_tokenizer("tokenizer_2"),
            transformer=transformer,
        )
    )


def sd15(**unet: Any) -> Any:
    """Stable Diffusion 1.5."""
    torch.manual_seed(0)
    return _ready(
        StableDiffusionPipeline(
            vae=_vae(),
            text_encoder=CLIPTextModel(_clip()),
            tokenizer=_tokenizer("tokenizer"),
            unet=_unet(cross_attention_dim=_WIDTH, **unet),
            scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="leading", steps_offset=1),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
    )


def sdxl(*, force_zeros: bool = True) -> Any:
    """SDXL; ``force_zeros`` as in its base model."""
    torch.manual_seed(0)
    times = 8
    unet = _unet(
        cross_attention_dim=2 * _WIDTH, addition_embed_type="text_time", addition_time_embed_dim=times,
        projection_class_embeddings_input_dim=6 * times + _WIDTH, use_linear_projection=True,
    )  # fmt: skip
    return _ready(
        StableDiffusionXLPipeline(
            vae=_vae(),
            text_encoder=CLIPTextModel(_clip()),
            text_encoder_2=CLIPTextModelWithProjection(_clip()),
            tokenizer=_tokenizer("tokenizer"),
            tokenizer_2=_tokenizer("tokenizer"),
            unet=unet,
            scheduler=EulerDiscreteScheduler(beta_schedule="scaled_linear", timestep_spacing="leading", steps_offset=1),
            force_zeros_for_empty_prompt=force_zeros,
            add_watermarker=False,
        )
    )


def sd3(*, dynamic: bool = False) -> Any:
    """Stable Diffusion 3."""
    torch.manual_seed(0)
    transformer = SD3Transformer2DModel(
        sample_size=32, patch_size=1, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=4,
        caption_projection_dim=32, joint_attention_dim=2 * _WIDTH, pooled_projection_dim=2 * _WIDTH, out_channels=4,
        pos_embed_max_size=256,
    )  # fmt: skip
    return _ready(
        StableDiffusion3Pipeline(
            transformer=transformer,
            scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=dynamic),
            vae=_vae(use_quant_conv=False, shift_factor=0.06),
            text_encoder=CLIPTextModelWithProjection(_clip()),
            tokenizer=_tokenizer("tokenizer"),
            text_encoder_2=CLIPTextModelWithProjection(_clip()),
            tokenizer_2=_tokenizer("tokenizer"),
            text_encoder_3=_t5(width=2 * _WIDTH),
            tokenizer_3=_tokenizer("tokenizer_2"),
        )
    )


def qwen() -> Any:
    """Qwen-Image."""
    torch.manual_seed(0)
    words = f"{WORDS} {QwenImagePipeline.__doc__}".split()
    vocabulary = {word: number for number, word in enumerate(("<pad>", "<unk>", *dict.fromkeys(words)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = {
        "hidden_size": _WIDTH, "intermediate_size": _WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "vocab_size": len(vocabulary),
        "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
    }  # fmt: skip
    vision = {"depth": 1, "hidden_size": _WIDTH, "intermediate_size": _WIDTH, "num_heads": 2, "out_hidden_size": _WIDTH}
    transformer = QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=_WIDTH, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    vae = AutoencoderKLQwenImage(
        base_dim=8, z_dim=4, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True],
        latents_mean=[0.1, -0.1, 0.2, 0.0], latents_std=[1.5, 2.0, 1.0, 0.5],
    )  # fmt: skip
    return _ready(
        QwenImagePipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift_terminal=0.02),
            vae=vae,
            text_encoder=Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision)),
            tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>"),
            transformer=transformer,
        )
    )


FAMILIES: dict[str, Callable[[], Any]] = {"flux": flux, "sd15": sd15, "sdxl": sdxl, "sd3": sd3, "qwen-image": qwen}
"""By the name that settings have for them."""


def _ready(pipeline: Any) -> Any:
    """Silent, and without dropout."""
    pipeline.set_progress_bar_config(disable=True)
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.eval().requires_grad_(False)
    return pipeline


def _tokenizer(name: str) -> Any:
    return AutoTokenizer.from_pretrained(SCENES / name)


def _clip() -> CLIPTextConfig:
    return CLIPTextConfig(
        vocab_size=120, hidden_size=_WIDTH, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=3, projection_dim=_WIDTH,
    )  # fmt: skip


def _t5(width: int = _WIDTH) -> T5EncoderModel:
    return T5EncoderModel(T5Config(vocab_size=120, d_model=width, d_kv=8, d_ff=32, num_layers=1, num_heads=2))


def _vae(**options: Any) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=(8, 8, 8, 8), norm_num_groups=4, layers_per_block=1, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, **options,
    )  # fmt: skip


def _unet(**options: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **options,
    )  # fmt: skip
