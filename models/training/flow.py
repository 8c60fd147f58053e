"""The transformer's main stage: rectified flow on cached latents, with the text encoders along."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .captions import training_caption
from .latents import Bucket
from .parts import Parts
from .sizes import OTHER_SHARE, SHARES, Size
from .untyped import Untyped
from .vocab import T5_TOKENS

EMPTY_SHARE = 0.06
UNIFORM_SHARE = 0.15
PIXELS_PER_TOKEN = 16


@dataclass
class Batch:
    """Noised latents of one size, what they are to become, and their captions."""

    size: Size
    noisy: torch.Tensor
    velocity: torch.Tensor
    times: torch.Tensor
    captions: list[str]


class Batches:
    """Draws batches: a size by its share, as many pictures as fit the token budget."""

    def __init__(self, buckets: list[Bucket], tokens: int, seed: int) -> None:
        self.buckets = buckets
        self.tokens = tokens
        self.random = random.Random(seed)
        self.weights = [SHARES.get(bucket.size, OTHER_SHARE) for bucket in buckets]

    def draw(self, *, late: bool, empty_share: float = EMPTY_SHARE) -> Batch:
        """A batch; late in training its times lie further from noise, where outlines are drawn."""
        bucket = self.random.choices(self.buckets, self.weights)[0]
        count = max(1, self.tokens // (token_count(bucket.size) + T5_TOKENS))
        indices = [self.random.randrange(len(bucket.latents)) for _ in range(count)]
        clean = pack(bucket.latents[indices].float())
        noise = torch.randn_like(clean)
        times = sample_times(count, late=late)
        level = times[:, None, None]
        noisy = (1 - level) * clean + level * noise
        captions = [self._caption(bucket, index, empty_share) for index in indices]
        return Batch(bucket.size, noisy, noise - clean, times, captions)

    def _caption(self, bucket: Bucket, index: int, empty_share: float) -> str:
        if self.random.random() < empty_share:
            return ""
        return training_caption(self.random, bucket.scene(index))


def flow_loss(parts: Parts, batches: Batches, spent: Callable[[], float]) -> torch.Tensor:
    """How far the predicted velocities are from the true ones."""
    batch = batches.draw(late=spent() > 0.65)
    pooled, states = parts.encode_text(batch.captions)
    predicted = predict(parts.transformer, batch, pooled, states)
    return (predicted - batch.velocity).square().mean()


def predict(transformer: Untyped, batch: Batch, pooled: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """The transformer's velocities, called as the pipeline calls it."""
    velocity: torch.Tensor = transformer(
        hidden_states=batch.noisy,
        encoder_hidden_states=states,
        pooled_projections=pooled,
        timestep=batch.times,
        img_ids=picture_ids(batch.size),
        txt_ids=torch.zeros(states.shape[1], 3),
        return_dict=False,
    )[0]
    return velocity


def sample_times(count: int, *, late: bool) -> torch.Tensor:
    """Times from 0 (clean) to 1 (noise): some uniform, most near noise, where captions decide most."""
    mean, spread = (0.6, 1.2) if late else (1.2, 1.3)
    times = torch.sigmoid(mean + spread * torch.randn(count))
    return torch.where(torch.rand(count) < UNIFORM_SHARE, torch.rand(count), times)


def token_count(size: Size) -> int:
    """How many tokens a picture of this size has."""
    return (size[0] // PIXELS_PER_TOKEN) * (size[1] // PIXELS_PER_TOKEN)


def pack(latents: torch.Tensor) -> torch.Tensor:
    """Latents as tokens of two by two, in the pipeline's order."""
    count, channels, height, width = latents.shape
    blocks = latents.view(count, channels, height // 2, 2, width // 2, 2)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(count, -1, channels * 4)


def picture_ids(size: Size) -> torch.Tensor:
    """Each token's row and column."""
    rows, columns = size[1] // PIXELS_PER_TOKEN, size[0] // PIXELS_PER_TOKEN
    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] = torch.arange(rows)[:, None]
    ids[..., 2] = torch.arange(columns)[None, :]
    return ids.view(-1, 3)
