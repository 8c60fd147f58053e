"""What OpenAI's ``quality`` means for a model."""

from __future__ import annotations

import math

from safelight.config import ModelSettings


def steps_of(quality: str, model: ModelSettings, most: int) -> int:
    """The denoising steps that a quality means for a model: the settings' own, else a multiple of the usual ones."""
    usual = model.default_steps
    own = {"low": model.quality.low, "medium": model.quality.medium, "high": model.quality.high}[quality]
    if own is not None:
        return own
    return {"low": math.ceil(usual / 2), "medium": usual, "high": max(usual, min(2 * usual, most))}[quality]
