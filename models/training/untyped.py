"""The libraries' classes, as untyped: they publish no types that a strict checker could use."""

from __future__ import annotations

from typing import Any, TypeAlias

import diffusers
import transformers
from diffusers.models import embeddings
from diffusers.models.transformers import transformer_flux

Untyped: TypeAlias = Any
"""A model, tokenizer or pipeline of diffusers or transformers."""

AutoencoderKL: Untyped = diffusers.AutoencoderKL
FlowMatchEulerDiscreteScheduler: Untyped = diffusers.FlowMatchEulerDiscreteScheduler
FluxPipeline: Untyped = diffusers.FluxPipeline
FluxTransformer2DModel: Untyped = diffusers.FluxTransformer2DModel
FluxAttnProcessor: Untyped = transformer_flux.FluxAttnProcessor
apply_rotary_emb: Untyped = embeddings.apply_rotary_emb

CLIPTextConfig: Untyped = transformers.CLIPTextConfig
CLIPTextModel: Untyped = transformers.CLIPTextModel
PreTrainedTokenizerFast: Untyped = transformers.PreTrainedTokenizerFast
T5Config: Untyped = transformers.T5Config
T5EncoderModel: Untyped = transformers.T5EncoderModel
