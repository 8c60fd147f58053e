"""Qwen-Image, after ``diffusers.QwenImagePipeline``: rectified flow, two passes and a norm where there is guidance."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from diffusers.pipelines.qwenimage.pipeline_qwenimage import calculate_shift, retrieve_timesteps

from actors.engine.embeds import Embeds
from actors.engine.errors import InvalidRequestError
from actors.engine.families.base import (
    NEGATIVE,
    Encode,
    Family,
    Inputs,
    LatentRow,
    guided_sum,
    latents_of,
    negative,
    timesteps_of,
)
from actors.engine.request import RenderRequest
from actors.engine.sampling import on_device
from actors.engine.stepping import BatchKey
from safelight.config import ModelSettings


class QwenImage(Family):
    """Latents are packed in 2x2 patches: [B, patches, 4 channels].

    Texts keep their own lengths: in a batch they are padded to the longest, with a mask.
    """

    guidance_argument = "true_cfg_scale"

    def __init__(self, pipeline: Any, settings: ModelSettings, device: str, dtype: torch.dtype) -> None:
        """As every family."""
        super().__init__(pipeline, settings, device, dtype)
        self._decoding = threading.Lock()  # the VAE, one for video, keeps frames on itself while it decodes

    @property
    def size_multiple(self) -> int:
        """The VAE's factor times the patch."""
        return int(self.pipeline.vae_scale_factor) * 2

    def check(self, request: RenderRequest) -> None:
        """Also refuse transformers that take the guidance scale as an input, as the pipeline does without one."""
        super().check(request)
        if self.pipeline.transformer.config.guidance_embeds:
            raise InvalidRequestError("the model refuses the request: its guidance scale is an input of its own")

    def guided(self, request: RenderRequest) -> bool:
        """Above a scale of 1, beside some negative prompt."""
        return self.guidance(request) > 1 and self.arguments(request)["negative_prompt"] is not None

    def encode(self, text: str) -> Embeds:
        """The language model's hidden states, as many as the text has tokens."""
        prompt, _ = self.pipeline.encode_prompt(text, self.device, max_sequence_length=self.text_length)
        return {"prompt": prompt}

    def conditions(self, request: RenderRequest, encode: Encode) -> Embeds:
        """The prompt's embeds, and the negative prompt's where there is guidance."""
        positive = encode(request.prompt)
        if not self.guided(request):
            return positive
        return {**positive, **negative(encode(self.arguments(request)["negative_prompt"]))}

    def draw(self, request: RenderRequest, generator: torch.Generator) -> torch.Tensor:
        """Packed noise: [1, patches, 4 channels]."""
        channels = self.pipeline.transformer.config.in_channels // 4
        noise: torch.Tensor = self.pipeline.prepare_latents(
            1, channels, request.height, request.width, self.dtype, self.device, [generator]
        )
        return noise

    def schedule(self, scheduler: Any, request: RenderRequest, latents: torch.Tensor) -> torch.Tensor:
        """Linear sigmas, shifted by the number of patches."""
        config = scheduler.config
        shift = calculate_shift(
            latents.shape[1],
            config.get("base_image_seq_len", 256),
            config.get("max_image_seq_len", 4096),
            config.get("base_shift", 0.5),
            config.get("max_shift", 1.15),
        )
        sigmas: Any = np.linspace(1.0, 1 / request.steps, request.steps)
        timesteps: torch.Tensor = retrieve_timesteps(scheduler, request.steps, "cpu", sigmas=sigmas, mu=shift)[0]
        return timesteps

    def inputs(self, rows: Sequence[LatentRow]) -> tuple[Inputs, ...]:
        """A pass with the prompts, and one with the negative prompts where the rows are guided."""
        key, factor = rows[0].key, self.size_multiple
        batched = {
            "hidden_states": latents_of(rows),
            "timestep": timesteps_of(rows, self.device, self.dtype) / 1000,
        }
        # A shape for each row would say no more: the transformer takes the first for all.
        shared = {"img_shapes": [[(1, key.height // factor, key.width // factor)]], "attention_kwargs": {}}
        names = ("prompt", NEGATIVE + "prompt") if key.guided else ("prompt",)
        return tuple(Inputs({**batched, **_padded(rows, name)}, shared) for name in names)

    def combine(self, outputs: Sequence[torch.Tensor], rows: Sequence[LatentRow]) -> torch.Tensor:
        """Guidance, brought back to the norm of the prediction with the prompt."""
        if not rows[0].key.guided:
            return outputs[0]
        guided = guided_sum(outputs[1], outputs[0], rows)
        norms: list[torch.Tensor] = [torch.norm(one, dim=-1, keepdim=True) for one in (outputs[0], guided)]
        return guided * (norms[0] / norms[1])

    def grid(self, latents: torch.Tensor, key: BatchKey) -> torch.Tensor:
        """Unpacked: [B, channels, height / 8, width / 8], without the frames that the VAE has besides."""
        frames: torch.Tensor = self.pipeline._unpack_latents(
            latents, key.height, key.width, self.pipeline.vae_scale_factor
        )
        return frames[:, :, 0]

    def decode_grid(self, grid: torch.Tensor) -> torch.Tensor:
        """The VAE's decoder, in its own number format, of one frame."""
        vae = self.pipeline.vae
        latents = grid.unsqueeze(2).to(vae.dtype)
        mean = torch.tensor(vae.config.latents_mean).view(1, -1, 1, 1, 1).to(latents)
        inverse = 1.0 / torch.tensor(vae.config.latents_std).view(1, -1, 1, 1, 1).to(latents)
        with self._decoding:
            pictures: torch.Tensor = vae.decode(latents / inverse + mean, return_dict=False)[0]
        return pictures[:, :, 0]


def _padded(rows: Sequence[LatentRow], name: str) -> dict[str, torch.Tensor]:
    """The rows' texts [rows, longest, channels], and a mask [rows, longest] where their lengths differ."""
    texts = [row.conditions[name][0] for row in rows]
    hidden = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    if all(len(text) == hidden.shape[1] for text in texts):
        return {"encoder_hidden_states": hidden}
    lengths = torch.tensor([len(text) for text in texts])
    mask = torch.arange(hidden.shape[1]) < lengths[:, None]
    return {"encoder_hidden_states": hidden, "encoder_hidden_states_mask": on_device(mask, hidden.device)}
