"""Which models are canaries of which: checked once all models are known."""

from __future__ import annotations

from collections.abc import Mapping

from safelight.config.errors import ConfigError
from safelight.config.settings import ModelSettings


def check_canaries(models: Mapping[str, ModelSettings]) -> None:
    """Raise ConfigError where a canary is one of what can have none, or would take more jobs than there are."""
    for name, model in models.items():
        stable = models.get(model.canary_of)
        key = f"[models.{name}] canary_of"
        if not model.canary_of:
            continue
        if stable is None:
            raise ConfigError(f"{key}: there is no model {model.canary_of!r}; there are: {', '.join(models)}")
        if model.canary_of == name or stable.canary_of:
            raise ConfigError(f"{key}: {model.canary_of!r} is a canary itself; name the model that clients ask for")
        if stable.takes_images and not model.takes_images:
            raise ConfigError(f"{key}: {model.canary_of!r} begins from pictures, and {name!r} can't")
    for name in models:
        total = sum(model.share for model in canaries_of(models, name).values())
        if total > 1 + 1e-9:
            raise ConfigError(f"the canaries of {name!r} take shares of {total:g} together; at most 1 is there")


def canaries_of(models: Mapping[str, ModelSettings], name: str) -> dict[str, ModelSettings]:
    """The canaries of a model, in the order of the settings."""
    return {own: model for own, model in models.items() if model.canary_of == name}
