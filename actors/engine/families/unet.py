"""Stable Diffusion 1.5 and SDXL, after their diffusers pipelines: a UNet, guidance by doubling the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion import retrieve_timesteps
from diffusers.utils.torch_utils import randn_tensor

from actors.engine.embeds import Embeds
from actors.engine.errors import ContentFilteredError
from actors.engine.families.base import (
    Encode,
    Family,
    Inputs,
    LatentRow,
    doubled,
    guided_halves,
    negative,
    timesteps_of,
)
from actors.engine.request import RenderRequest
from actors.engine.stepping import BatchKey
from safelight.config import ModelSettings


class StableDiffusion(Family):
    """``diffusers.StableDiffusionPipeline``. Latents are the VAE's: [B, channels, height / 8, width / 8]."""

    @property
    def denoiser(self) -> torch.nn.Module:
        """The UNet."""
        unet: torch.nn.Module = self.pipeline.unet
        return unet

    @property
    def size_multiple(self) -> int:
        """The VAE's factor."""
        return int(self.pipeline.vae_scale_factor)

    def guided(self, request: RenderRequest) -> bool:
        """Above a scale of 1, unless the UNet takes the scale as an input."""
        return self.guidance(request) > 1 and self._scale_width is None

    def encode(self, text: str) -> Embeds:
        """CLIP's hidden states."""
        prompt, _ = self.pipeline.encode_prompt(text, self.device, 1, False)
        return {"prompt": prompt}

    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """The prompt's embeds, and the negative prompt's where there is guidance."""
        positive = encode(request.prompt)
        if not self.guided(request):
            return positive
        return {**positive, **negative(self._negative(self.arguments(request)["negative_prompt"], positive, encode))}

    def draw(self, request: RenderRequest, generator: torch.Generator) -> torch.Tensor:
        """Noise: [1, channels, height / 8, width / 8]."""
        factor = self.pipeline.vae_scale_factor
        shape = (1, self.pipeline.unet.config.in_channels, request.height // factor, request.width // factor)
        noise: torch.Tensor = randn_tensor(shape, generator=generator, device=self.device, dtype=self.dtype)
        return noise

    def noise_scale(self, scheduler: Any) -> Any:
        """The noise level that the scheduler begins at."""
        return scheduler.init_noise_sigma

    def schedule(self, scheduler: Any, request: RenderRequest, latents: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """The scheduler's own timesteps."""
        timesteps: torch.Tensor = retrieve_timesteps(scheduler, request.steps, "cpu")[0]
        return timesteps

    def inputs(self, rows: Sequence[LatentRow]) -> tuple[Inputs, ...]:
        """One pass, of twice the rows where they are guided: first all without the prompt, then all with it."""
        times = 2 if rows[0].key.guided else 1
        latents = torch.cat([row.sampler.scale(row.latents, row.step) for row in rows])
        batched = {
            "sample": torch.cat([latents] * times),
            "timestep": timesteps_of(rows, self.device).repeat(times),
            **self._text(rows),
        }
        if self._scale_width is not None:
            scale = self.pipeline.get_guidance_scale_embedding(
                torch.tensor([row.guidance - 1 for row in rows]), embedding_dim=self._scale_width
            )
            batched["timestep_cond"] = scale.to(device=self.device, dtype=latents.dtype)
        return (Inputs(batched),)

    def combine(self, outputs: Sequence[torch.Tensor], rows: Sequence[LatentRow]) -> torch.Tensor:
        """Guidance between the pass's halves."""
        return guided_halves(outputs[0], rows)

    def grid(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:  # noqa: ARG002
        """The latents themselves."""
        return latents

    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """The VAE's decoder; what the pipeline's safety checker flags is black."""
        pictures, flagged = self._looked_over(grid)
        for index, unsafe in enumerate(flagged):
            if unsafe:
                pictures[index] = -1.0
        return pictures

    def decode(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """Pictures that the safety checker lets through. Raises ContentFilteredError where it flags one."""
        pictures, flagged = self._looked_over(self.grid(latents, key))
        if any(flagged):
            raise ContentFilteredError("the model's safety checker flagged the picture; another seed or prompt may do")
        return pictures

    def _looked_over(self, grid: torch.Tensor) -> tuple[torch.Tensor, Sequence[bool]]:
        """Pictures of a grid, and which of them the pipeline's safety checker flags; none where it has no checker."""
        vae = self.pipeline.vae
        pictures: torch.Tensor = vae.decode(grid / vae.config.scaling_factor, return_dict=False)[0]
        pictures, flagged = self.pipeline.run_safety_checker(pictures, pictures.device, self.dtype)
        return pictures, flagged or ()

    def _text(self, rows: Sequence[LatentRow]) -> dict[str, torch.Tensor]:
        return {"encoder_hidden_states": doubled(rows, "prompt")}

    def _negative(self, text: str | None, positive: Embeds, encode: Encode) -> Embeds:  # noqa: ARG002
        return encode(text or "")

    @property
    def _scale_width(self) -> int | None:
        width: int | None = self.pipeline.unet.config.time_cond_proj_dim
        return width


class StableDiffusionXL(StableDiffusion):
    """``diffusers.StableDiffusionXLPipeline``: two text encoders, and the picture's size as a condition."""

    def __init__(self, pipeline: Any, settings: ModelSettings, device: str, dtype: torch.dtype) -> None:
        """A VAE in float16 that overflows there is turned to float32 for good.

        The pipeline does so for each picture and turns it back; here several threads may decode at a time.
        """
        super().__init__(pipeline, settings, device, dtype)
        self._denoiser = self.dressed(pipeline.unet)
        if pipeline.vae.dtype == torch.float16 and pipeline.vae.config.force_upcast:
            pipeline.vae.to(torch.float32)

    @classmethod
    def dressed(cls, denoiser: torch.nn.Module) -> torch.nn.Module:
        """A UNet that takes the additional conditions by their own names."""
        return _Conditioned(denoiser)

    @property
    def denoiser(self) -> torch.nn.Module:
        """The UNet, which takes the additional conditions by their own names."""
        return self._denoiser

    def encode(self, text: str) -> Embeds:
        """Both CLIPs' hidden states side by side, and the second's pooled ones."""
        prompt, _, pooled, _ = self.pipeline.encode_prompt(
            prompt=text, device=self.device, do_classifier_free_guidance=False
        )
        return {"prompt": prompt, "pooled": pooled}

    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """The embeds, and the sizes: original, crop and target."""
        embeds = super().conditions(request, encode)
        size = (request.height, request.width)
        encoder = self.pipeline.text_encoder_2
        width = embeds["pooled"].shape[-1] if encoder is None else encoder.config.projection_dim
        sizes = self.pipeline._get_add_time_ids(
            size, (0, 0), size, dtype=embeds["prompt"].dtype, text_encoder_projection_dim=width
        ).to(self.device)
        return {**embeds, "sizes": sizes, **(negative({"sizes": sizes}) if self.guided(request) else {})}

    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """The VAE's decoder, in its own number format."""
        vae, latents = self.pipeline.vae, grid.to(self.pipeline.vae.dtype)
        mean, deviation = (vae.config.get(name) for name in ("latents_mean", "latents_std"))
        if mean is not None and deviation is not None:
            mean, deviation = (torch.tensor(one).view(1, -1, 1, 1).to(latents) for one in (mean, deviation))
            latents = latents * deviation / vae.config.scaling_factor + mean
        else:
            latents = latents / vae.config.scaling_factor
        pictures: torch.Tensor = vae.decode(latents, return_dict=False)[0]
        return pictures

    def decode(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """With the pipeline's invisible watermark, where it has one."""
        pictures = self.decode_grid(self.grid(latents, key))
        watermark = self.pipeline.watermark
        marked: torch.Tensor = pictures if watermark is None else watermark.apply_watermark(pictures)
        return marked

    def _text(self, rows: Sequence[LatentRow]) -> dict[str, torch.Tensor]:
        return {
            "encoder_hidden_states": doubled(rows, "prompt"),
            "text_embeds": doubled(rows, "pooled"),
            "time_ids": doubled(rows, "sizes"),
        }

    def _negative(self, text: str | None, positive: Embeds, encode: Encode) -> Embeds:
        if text is None and self.pipeline.config.force_zeros_for_empty_prompt:
            return {name: torch.zeros_like(tensor) for name, tensor in positive.items()}
        return encode(text or "")


class _Conditioned(torch.nn.Module):
    """A UNet whose additional conditions are arguments like all others; in all else it is the UNet."""

    def __init__(self, unet: torch.nn.Module) -> None:
        super().__init__()
        self.unet = unet

    def forward(self, *, text_embeds: torch.Tensor, time_ids: torch.Tensor, **others: Any) -> Any:
        """The UNet's own output."""
        return self.unet(**others, added_cond_kwargs={"text_embeds": text_embeds, "time_ids": time_ids})

    def __getattr__(self, name: str) -> Any:
        """What a module has not is asked of the UNet: its configuration, how to compile its blocks."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("unet"), name)
