"""FLUX.1 (dev, schnell and their kin), after ``diffusers.FluxPipeline``: rectified flow, guidance as an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from diffusers.pipelines.flux.pipeline_flux import calculate_shift, retrieve_timesteps

from actors.engine.embeds import Embeds
from actors.engine.families.base import (
    Encode,
    Family,
    Inputs,
    LatentRow,
    decoded,
    latents_of,
    scales_of,
    stacked,
    timesteps_of,
)
from actors.engine.request import RenderRequest
from actors.engine.stepping import BatchKey
from safelight.config import ModelSettings

_SIZES = 64  # whose positions are kept: a few hundred KiB each


class Flux(Family):
    """Latents are packed in 2x2 patches: [B, patches, 4 channels]. ``img_ids`` and ``txt_ids`` serve all rows."""

    def __init__(self, pipeline: Any, settings: ModelSettings, device: str, dtype: torch.dtype) -> None:
        """As every family."""
        super().__init__(pipeline, settings, device, dtype)
        self._positions: dict[tuple[int, int, int], dict[str, torch.Tensor]] = {}

    @property
    def size_multiple(self) -> int:
        """The VAE's factor times the patch."""
        return int(self.pipeline.vae_scale_factor) * 2

    def guided(self, request: RenderRequest) -> bool:  # noqa: ARG002
        """Never: the guidance scale is an input of the transformer."""
        return False

    def encode(self, text: str) -> Embeds:
        """T5's hidden states and CLIP's pooled ones."""
        prompt, pooled, _ = self.pipeline.encode_prompt(
            prompt=text, prompt_2=None, device=self.device, max_sequence_length=self.text_length
        )
        return {"prompt": prompt, "pooled": pooled}

    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """The prompt's embeds; a negative prompt has no effect without true guidance."""
        return encode(request.prompt)

    def draw(self, request: RenderRequest, generator: torch.Generator) -> torch.Tensor:
        """Packed noise: [1, patches, 4 channels]."""
        channels = self.pipeline.transformer.config.in_channels // 4
        noise, _ = self.pipeline.prepare_latents(
            1, channels, request.height, request.width, self.dtype, self.device, [generator]
        )
        packed: torch.Tensor = noise
        return packed

    def schedule(self, scheduler: Any, request: RenderRequest, latents: torch.Tensor) -> torch.Tensor:
        """Linear sigmas, shifted by the number of patches where the scheduler's settings say so."""
        config = scheduler.config
        sigmas: Any = None if config.get("use_flow_sigmas") else np.linspace(1.0, 1 / request.steps, request.steps)
        shift = calculate_shift(
            latents.shape[1],
            config.get("base_image_seq_len", 256),
            config.get("max_image_seq_len", 4096),
            config.get("base_shift", 0.5),
            config.get("max_shift", 1.15),
        )
        timesteps: torch.Tensor = retrieve_timesteps(scheduler, request.steps, "cpu", sigmas=sigmas, mu=shift)[0]
        return timesteps

    def inputs(self, rows: Sequence[LatentRow]) -> tuple[Inputs, ...]:
        """One pass; timestep, guidance and text are a row's own."""
        prompt, key = stacked(rows, "prompt"), rows[0].key
        batched = {
            "hidden_states": latents_of(rows),
            "timestep": timesteps_of(rows, self.device, self.dtype) / 1000,
            "pooled_projections": stacked(rows, "pooled"),
            "encoder_hidden_states": prompt,
        }
        if self.pipeline.transformer.config.guidance_embeds:
            batched["guidance"] = scales_of(rows, self.device)
        return (Inputs(batched, {**self._ids(key, prompt.shape[1]), "joint_attention_kwargs": {}}),)

    def combine(self, outputs: Sequence[torch.Tensor], rows: Sequence[LatentRow]) -> torch.Tensor:  # noqa: ARG002
        """The pass's own output."""
        return outputs[0]

    def grid(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """Unpacked: [B, channels, height / 8, width / 8]."""
        grid: torch.Tensor = self.pipeline._unpack_latents(
            latents, key.height, key.width, self.pipeline.vae_scale_factor
        )
        return grid

    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """The VAE's decoder."""
        return decoded(self.pipeline.vae, grid)

    def _ids(self, key: BatchKey, text_length: int) -> dict[str, torch.Tensor]:
        """Positions of patches and tokens, made once for a size: each would wait for the device."""
        size = (key.height, key.width, text_length)
        if size not in self._positions:
            if len(self._positions) >= _SIZES:
                self._positions.clear()
            self._positions[size] = self._positions_of(*size)
        return self._positions[size]

    def _positions_of(self, height: int, width: int, text_length: int) -> dict[str, torch.Tensor]:
        scale = self.size_multiple
        image_ids = self.pipeline._prepare_latent_image_ids(1, height // scale, width // scale, self.device, self.dtype)
        text_ids = torch.zeros(text_length, 3, device=self.device, dtype=self.dtype)
        return {"img_ids": image_ids, "txt_ids": text_ids}
