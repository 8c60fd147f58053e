"""Pictures encoded once and kept, each with the seed its scene is drawn from again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from .progress import progress_bar
from .render import render_scene
from .scenes import Scene, sample_scene
from .sizes import Size
from .untyped import Untyped

ENCODE_BATCH = 16


@dataclass
class Bucket:
    """All cached pictures of one size."""

    size: Size
    latents: torch.Tensor
    first_seed: int

    def scene(self, index: int) -> Scene:
        """The scene of one of the pictures."""
        return sample_scene(random.Random(self.first_seed + index), *self.size)


def scene_image(seed: int, size: Size) -> Image.Image:
    """The picture of the scene that this seed draws."""
    return render_scene(sample_scene(random.Random(seed), *size), *size)


def to_pixels(images: list[Image.Image]) -> torch.Tensor:
    """Pictures as the VAE takes them: channels first, from -1 to 1."""
    array = np.stack([np.asarray(image, dtype=np.float32) for image in images])
    return torch.from_numpy(array).permute(0, 3, 1, 2) / 127.5 - 1


def load_buckets(vae: Untyped, counts: dict[Size, int], folder: Path, seed: int) -> list[Bucket]:
    """The cached pictures of every size, encoding those that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with progress_bar("encode", sum(counts.values())) as advance:
        buckets = []
        for number, (size, count) in enumerate(counts.items()):
            first_seed = seed + number * 10_000_000
            buckets.append(Bucket(size, _encoded(vae, size, count, folder, first_seed), first_seed))
            advance(count)
    return buckets


def _encoded(vae: Untyped, size: Size, count: int, folder: Path, first_seed: int) -> torch.Tensor:
    path = folder / f"{size[0]}x{size[1]}-{count}-{first_seed}.pt"
    if path.exists():
        kept: torch.Tensor = torch.load(path, weights_only=True)
        return kept
    batches = []
    for start in range(0, count, ENCODE_BATCH):
        seeds = range(first_seed + start, first_seed + min(start + ENCODE_BATCH, count))
        with torch.no_grad():
            pixels = to_pixels([scene_image(seed, size) for seed in seeds])
            batches.append(vae.encode(pixels).latent_dist.mean.half())
    latents = torch.cat(batches)
    torch.save(latents, path)
    return latents
