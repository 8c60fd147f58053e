"""Which models stand in for which: checked once all models are known."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from safelight.config.errors import ConfigError
from safelight.config.settings import ModelSettings


def check_fallbacks(models: Mapping[str, ModelSettings]) -> None:
    """Raise ConfigError where a model names fallbacks that can't be.

    A job goes the way that its own model names, and no further: two models may stand in for each other.
    """
    for name, model in models.items():
        key = f"[models.{name}] fallbacks"
        for fallback in model.fallbacks:
            if fallback not in models:
                near = difflib.get_close_matches(fallback, models, n=1)
                meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(models)}"
                raise ConfigError(f"{key}: there is no model {fallback!r}; {meant}")
        if name in model.fallbacks:
            raise ConfigError(f"{key}: {name!r} can't stand in for itself")
        if len(set(model.fallbacks)) < len(model.fallbacks):
            raise ConfigError(f"{key}: a model is named twice, and each is tried once")
