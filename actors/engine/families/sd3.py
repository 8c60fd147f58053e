"""Stable Diffusion 3 and 3.5, after ``diffusers.StableDiffusion3Pipeline``: rectified flow, guided in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from diffusers.pipelines.stable_diffusion_3.pipeline_stable_diffusion_3 import calculate_shift, retrieve_timesteps

from actors.engine.embeds import Embeds
from actors.engine.errors import InvalidRequestError
from actors.engine.families.base import (
    Encode,
    Family,
    Inputs,
    LatentRow,
    decoded,
    doubled,
    guided_halves,
    latents_of,
    negative,
    timesteps_of,
)
from actors.engine.request import RenderRequest
from actors.engine.stepping import BatchKey


class StableDiffusion3(Family):
    """Latents are the VAE's: [B, channels, height / 8, width / 8]."""

    @property
    def size_multiple(self) -> int:
        """The VAE's factor times the patch."""
        return int(self.pipeline.vae_scale_factor) * int(self.pipeline.patch_size)

    def check(self, request: RenderRequest) -> None:
        """Also refuse sizes beyond the table of positions: the transformer would, and a whole batch with it."""
        super().check(request)
        largest = self.size_multiple * self.pipeline.transformer.config.pos_embed_max_size
        if max(request.width, request.height) > largest:
            raise InvalidRequestError(
                f"the model can't render {request.width}x{request.height}: no side can be longer than {largest}"
            )

    def guided(self, request: RenderRequest) -> bool:
        """Above a scale of 1."""
        return self.guidance(request) > 1

    def encode(self, text: str) -> Embeds:
        """The hidden states of both CLIPs and of T5, and the CLIPs' pooled ones."""
        prompt, _, pooled, _ = self.pipeline.encode_prompt(
            prompt=text,
            prompt_2=None,
            prompt_3=None,
            device=self.device,
            do_classifier_free_guidance=False,
            max_sequence_length=self.text_length,
        )
        return {"prompt": prompt, "pooled": pooled}

    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """The prompt's embeds, and the negative prompt's where there is guidance."""
        positive = encode(request.prompt)
        if not self.guided(request):
            return positive
        return {**positive, **negative(encode(self.arguments(request)["negative_prompt"] or ""))}

    def draw(self, request: RenderRequest, generator: torch.Generator) -> torch.Tensor:
        """Noise: [1, channels, height / 8, width / 8]."""
        channels = self.pipeline.transformer.config.in_channels
        noise: torch.Tensor = self.pipeline.prepare_latents(
            1, channels, request.height, request.width, self.dtype, self.device, [generator]
        )
        return noise

    def schedule(self, scheduler: Any, request: RenderRequest, latents: torch.Tensor) -> torch.Tensor:
        """The scheduler's own sigmas, shifted by the number of patches where its settings say so."""
        config, patch = scheduler.config, self.pipeline.transformer.config.patch_size
        shift = {}
        if config.get("use_dynamic_shifting"):
            shift["mu"] = calculate_shift(
                (latents.shape[2] // patch) * (latents.shape[3] // patch),
                config.get("base_image_seq_len", 256),
                config.get("max_image_seq_len", 4096),
                config.get("base_shift", 0.5),
                config.get("max_shift", 1.16),
            )
        timesteps: torch.Tensor = retrieve_timesteps(scheduler, request.steps, "cpu", **shift)[0]
        return timesteps

    def inputs(self, rows: Sequence[LatentRow]) -> tuple[Inputs, ...]:
        """One pass, of twice the rows where they are guided: first all without the prompt, then all with it."""
        times = 2 if rows[0].key.guided else 1
        batched = {
            "hidden_states": torch.cat([latents_of(rows)] * times),
            "timestep": timesteps_of(rows, self.device).repeat(times),
            "encoder_hidden_states": doubled(rows, "prompt"),
            "pooled_projections": doubled(rows, "pooled"),
        }
        return (Inputs(batched),)

    def combine(self, outputs: Sequence[torch.Tensor], rows: Sequence[LatentRow]) -> torch.Tensor:
        """Guidance between the pass's halves."""
        return guided_halves(outputs[0], rows)

    def grid(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:  # noqa: ARG002
        """The latents themselves."""
        return latents

    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """The VAE's decoder."""
        return decoded(self.pipeline.vae, grid)
