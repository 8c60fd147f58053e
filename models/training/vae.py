"""The autoencoder's stage: pictures to latents of unit spread and back."""

from __future__ import annotations

import random

import torch

from .latents import scene_image, to_pixels
from .sizes import Size
from .untyped import Untyped

KL_WEIGHT = 4e-4
SQUARE_WEIGHT = 2.0
EDGE_WEIGHT = 0.5
NORMALISE_SEED = 9_000_000_000


class VaeLoss:
    """The loss on freshly drawn scenes, of one size a batch."""

    def __init__(self, vae: Untyped, sizes: list[Size], batch: int, seed: int) -> None:
        self.vae = vae
        self.sizes = sizes
        self.batch = batch
        self.random = random.Random(seed)

    def __call__(self) -> torch.Tensor:
        """Reconstruction, in values and in edges, and a little pull towards unit spread."""
        size = self.random.choice(self.sizes)
        seeds = [self.random.randrange(2**40) for _ in range(self.batch)]
        pixels = to_pixels([scene_image(seed, size) for seed in seeds])
        posterior = self.vae.encode(pixels).latent_dist
        restored = self.vae.decode(posterior.sample()).sample
        error = restored - pixels
        edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
        values = error.abs().mean() + SQUARE_WEIGHT * error.square().mean()
        loss: torch.Tensor = (
            values + EDGE_WEIGHT * edges + KL_WEIGHT * posterior.kl().mean() / posterior.mean[0].numel()
        )
        return loss


def normalise_latents(vae: Untyped, sizes: list[Size], count: int) -> None:
    """Fold each latent channel's mean and spread into the convolutions on both sides of it.

    The latents come out with mean 0 and spread 1, so the pipeline needs no scaling and no shift.
    """
    with torch.no_grad():
        mean, spread = _latent_statistics(vae, sizes, count)
        channels = len(mean)
        out, back = vae.quant_conv, vae.post_quant_conv
        out.weight[:channels] /= spread[:, None, None, None]
        out.bias[:channels] = (out.bias[:channels] - mean) / spread
        out.bias[channels:] -= 2 * spread.log()
        back.bias += back.weight[:, :, 0, 0] @ mean
        back.weight *= spread[None, :, None, None]


def _latent_statistics(vae: Untyped, sizes: list[Size], count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each channel's mean and spread over scenes of every size."""
    latents = []
    for index in range(count):
        image = scene_image(NORMALISE_SEED + index, sizes[index % len(sizes)])
        latents.append(vae.encode(to_pixels([image])).latent_dist.mean[0].flatten(1))
    values = torch.cat(latents, dim=1)
    return values.mean(dim=1), values.std(dim=1)
