"""The pipeline's parts: made from nothing, loaded from an export, and saved as one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from .untyped import (
    AutoencoderKL,
    CLIPTextConfig,
    CLIPTextModel,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    T5Config,
    T5EncoderModel,
    Untyped,
)
from .vocab import CLIP_SPECIALS, CLIP_TOKENS, T5_TOKENS, make_clip_tokenizer, make_t5_tokenizer

WIDTH = 128
"""The width of both text encoders' states."""


ZERO_PREFIXES = ("proj_out", "norm_out")
ZERO_PARTS = (".norm1.linear", ".norm1_context.linear", ".norm.linear")
"""The transformer's parameters that start at zero, so that each block starts as doing nothing."""


@dataclass
class Parts:
    """Everything a FLUX pipeline is put together from."""

    vae: Untyped
    clip: Untyped
    t5: Untyped
    transformer: Untyped
    clip_tokenizer: Untyped
    t5_tokenizer: Untyped

    def modules(self) -> dict[str, nn.Module]:
        """The trained parts by name."""
        return {"vae": self.vae, "clip": self.clip, "t5": self.t5, "transformer": self.transformer}

    def encode_text(self, captions: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """The pooled state and the token states, as the pipeline computes them."""
        clip_ids = self.clip_tokenizer(
            captions, padding="max_length", max_length=CLIP_TOKENS, truncation=True, return_tensors="pt"
        ).input_ids
        t5_ids = self.t5_tokenizer(
            captions, padding="max_length", max_length=T5_TOKENS, truncation=True, return_tensors="pt"
        ).input_ids
        return self.clip(clip_ids).pooler_output, self.t5(t5_ids)[0]


def fresh_parts() -> Parts:
    """Untrained parts."""
    clip_tokenizer, t5_tokenizer = make_clip_tokenizer(), make_t5_tokenizer()
    return Parts(
        _fresh_vae(),
        _fresh_clip(len(clip_tokenizer)),
        _fresh_t5(len(t5_tokenizer)),
        _fresh_transformer(),
        clip_tokenizer,
        t5_tokenizer,
    )


def load_parts(path: Path) -> Parts:
    """Trained parts from an exported pipeline, with embeddings for words it did not know."""
    pipeline = FluxPipeline.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    clip_tokenizer, t5_tokenizer = make_clip_tokenizer(), make_t5_tokenizer()
    clip, t5 = _fresh_clip(len(clip_tokenizer)), _fresh_t5(len(t5_tokenizer))
    _load_renumbered(clip, pipeline.text_encoder, clip_tokenizer, pipeline.tokenizer)
    _load_renumbered(t5, pipeline.text_encoder_2, t5_tokenizer, pipeline.tokenizer_2)
    return Parts(pipeline.vae, clip, t5, pipeline.transformer, clip_tokenizer, t5_tokenizer)


def make_pipeline(parts: Parts) -> Untyped:
    """The parts as a pipeline, ready to render or to save."""
    pipeline = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False),
        vae=parts.vae,
        text_encoder=parts.clip,
        tokenizer=parts.clip_tokenizer,
        text_encoder_2=parts.t5,
        tokenizer_2=parts.t5_tokenizer,
        transformer=parts.transformer,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def export_parts(parts: Parts, path: Path) -> None:
    """Save the parts as a pipeline in half precision, leaving them as they were."""
    before = {name: _copy_state(module) for name, module in parts.modules().items()}
    pipeline = make_pipeline(parts).to(dtype=torch.float16)
    pipeline.save_pretrained(path, safe_serialization=True)
    for config in path.glob("*/config.json"):
        _forget_origin(config)
    for name, module in parts.modules().items():
        module.to(torch.float32).load_state_dict(before[name])


@contextlib.contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Keep these modules from being trained while the block runs."""
    for module in modules:
        module.requires_grad_(False)
    try:
        yield
    finally:
        for module in modules:
            module.requires_grad_(True)


def _forget_origin(config: Path) -> None:
    """Drop the folder that the part was loaded from: it says something of this machine and nothing of the model."""
    kept = json.loads(config.read_text())
    kept.pop("_name_or_path", None)
    config.write_text(json.dumps(kept, indent=2) + "\n")


def _copy_state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def _load_renumbered(
    new: nn.Module,
    old: nn.Module,
    new_tokenizer: Untyped,
    old_tokenizer: Untyped,
) -> None:
    """Copy an encoder's weights, with each word's embedding at its new number."""
    old_numbers = old_tokenizer.get_vocab()
    state, target = old.state_dict(), new.state_dict()
    for name, tensor in target.items():
        if tensor.shape[0] != len(new_tokenizer) or tensor.dim() != 2:
            tensor.copy_(state[name])
            continue
        tensor.copy_(state[name].mean(dim=0, keepdim=True))
        for word, number in new_tokenizer.get_vocab().items():
            if word in old_numbers:
                tensor[number] = state[name][old_numbers[word]]
    new.load_state_dict(target)


def _fresh_vae() -> Untyped:
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(16, 32, 48, 64),
        layers_per_block=1,
        latent_channels=8,
        norm_num_groups=8,
        sample_size=128,
        scaling_factor=1.0,
        shift_factor=0.0,
        mid_block_add_attention=False,
    )


def _fresh_clip(words: int) -> Untyped:
    config = CLIPTextConfig(
        vocab_size=words,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        projection_dim=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CLIP_TOKENS,
        pad_token_id=CLIP_SPECIALS.index("<pad>"),
        bos_token_id=CLIP_SPECIALS.index("<bos>"),
        eos_token_id=CLIP_SPECIALS.index("<eos>"),
    )
    return CLIPTextModel(config)


def _fresh_t5(words: int) -> Untyped:
    config = T5Config(
        vocab_size=words,
        d_model=WIDTH,
        d_kv=32,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        relative_attention_max_distance=64,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        is_encoder_decoder=False,
        use_cache=False,
        pad_token_id=0,
        eos_token_id=1,
    )
    return T5EncoderModel(config)


def _fresh_transformer() -> Untyped:
    """A small FLUX transformer whose modulations and output start at zero."""
    transformer = FluxTransformer2DModel(
        in_channels=32,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=40,
        num_attention_heads=4,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(8, 16, 16),
    )
    for name, parameter in transformer.named_parameters():
        if name.startswith(ZERO_PREFIXES) or any(part in name for part in ZERO_PARTS):
            nn.init.zeros_(parameter)
    return transformer
