"""The whole training, stage by stage; finished stages are taken from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from .attention import use_fused_attention, use_plain_attention
from .flow import Batches, flow_loss
from .guidance import guidance_loss, make_guidance
from .latents import Bucket, load_buckets
from .parts import Parts, export_parts, fresh_parts, frozen, load_parts
from .sizes import PICTURES, Size
from .stage import Budget, Schedule, Stage
from .text import SceneReader, TextLoss
from .vae import VaeLoss, normalise_latents

VAE_BUDGET, TEXT_BUDGET, FLOW_BUDGET, GUIDANCE_BUDGET = Budget(15), Budget(6), Budget(90), Budget(10)


@dataclass(frozen=True)
class Settings:
    """What to train, on what, and for how long."""

    out: Path
    work: Path
    init: Path | None = None
    seed: int = 1000
    vae: Budget = VAE_BUDGET
    text: Budget = TEXT_BUDGET
    flow: Budget = FLOW_BUDGET
    guidance: Budget = GUIDANCE_BUDGET
    flow_rate: float = 9e-4
    guidance_scale: float = 2.5
    data_share: float = 0.3
    pictures: dict[Size, int] = field(default_factory=lambda: dict(PICTURES))
    batch: int = 32
    tokens: int = 3600
    guidance_tokens: int = 2000
    normalise_on: int = 256


def smoke_settings(out: Path, work: Path, init: Path | None, seed: int) -> Settings:
    """Every stage for two steps, on a handful of small pictures."""
    two = Budget(0, steps=2)
    return Settings(
        out,
        work,
        init,
        seed,
        vae=two,
        text=two,
        flow=two,
        guidance=two,
        pictures={(64, 64): 8, (96, 64): 8},
        batch=4,
        tokens=160,
        guidance_tokens=160,
        normalise_on=8,
    )


def train(settings: Settings, *, export_only: bool = False) -> None:
    """Train what is not trained yet and export it; or export what the checkpoints hold as they are."""
    settings.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(settings.seed)
    finish = _take_as_is if export_only else Stage.run
    parts = load_parts(settings.init) if settings.init else fresh_parts()
    if settings.init is None:
        _train_vae(settings, parts, finish)
        _train_text(settings, parts, finish)
    counts = {} if export_only else settings.pictures
    buckets = load_buckets(parts.vae, counts, settings.work / "latents", settings.seed)
    use_plain_attention(parts.transformer)
    _train_flow(settings, parts, buckets, finish)
    _train_guidance(settings, parts, buckets, finish)
    use_fused_attention(parts.transformer)
    export_parts(parts, settings.out)


Finish = Callable[[Stage, Callable[[], torch.Tensor]], None]
"""Brings a stage to its end, by training it or by taking it as it is."""


def _take_as_is(stage: Stage, _: Callable[[], torch.Tensor]) -> None:
    stage.use_averages()


def _train_vae(settings: Settings, parts: Parts, finish: Finish) -> None:
    sizes = list(settings.pictures)
    schedule = Schedule(2e-3, decay_from=0.5)
    stage = Stage("vae", {"vae": parts.vae}, settings.work, settings.vae, schedule)
    finish(stage, VaeLoss(parts.vae, sizes, max(1, settings.batch // 4), settings.seed + stage.step))
    normalise_latents(parts.vae, sizes, settings.normalise_on)


def _train_text(settings: Settings, parts: Parts, finish: Finish) -> None:
    reader = SceneReader()
    modules: dict[str, nn.Module] = {"clip": parts.clip, "t5": parts.t5, "reader": reader}
    stage = Stage("text", modules, settings.work, settings.text, Schedule(1e-3, decay_from=0.5))
    finish(stage, TextLoss(parts, reader, settings.batch * 4, settings.seed + stage.step))


def _train_flow(settings: Settings, parts: Parts, buckets: list[Bucket], finish: Finish) -> None:
    modules: dict[str, nn.Module] = {"clip": parts.clip, "t5": parts.t5, "transformer": parts.transformer}
    schedule = Schedule(settings.flow_rate, decay_from=0.35)
    stage = Stage("flow", modules, settings.work, settings.flow, schedule)
    batches = Batches(buckets, settings.tokens, settings.seed + stage.step)
    finish(stage, lambda: flow_loss(parts, batches, lambda: stage.spent))


def _train_guidance(settings: Settings, parts: Parts, buckets: list[Bucket], finish: Finish) -> None:
    """The teacher is the flow stage's result, so it is copied before this stage's checkpoint is read."""
    guidance = make_guidance(parts, settings.guidance_scale, settings.data_share)
    modules: dict[str, nn.Module] = {"transformer": parts.transformer}
    with frozen(parts.clip, parts.t5):
        schedule = Schedule(4e-4, decay_from=0.2)
        stage = Stage("guidance", modules, settings.work, settings.guidance, schedule, average=0.995)
        batches = Batches(buckets, settings.guidance_tokens, settings.seed + stage.step)
        finish(stage, lambda: guidance_loss(parts, guidance, batches))
