"""LoRA adapters that a submit names: looked up in the settings, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from api.problems import ProblemError, invalid
from safelight.config import ModelSettings

Resolved = tuple[tuple[str, float], ...]


def resolve_adapters(wanted: Mapping[str, float] | Sequence[str] | None, name: str, model: ModelSettings) -> Resolved:
    """The adapters with their weights, by name; the settings' weight where none is given. Raises ProblemError."""
    if not wanted:
        return ()
    names = list(wanted)
    strangers = [adapter for adapter in names if adapter not in model.adapters]
    if strangers:
        raise _unknown(strangers[0], name, model)
    if len(names) != len(set(names)):
        raise invalid("adapters", "adapters names one twice")
    given = wanted if isinstance(wanted, Mapping) else {}
    return tuple((adapter, float(given.get(adapter, model.adapters[adapter].weight))) for adapter in sorted(names))


def _unknown(adapter: str, name: str, model: ModelSettings) -> ProblemError:
    offer = f"it has: {', '.join(sorted(model.adapters))}" if model.adapters else "it has none"
    return invalid("adapters", f"the model {name} has no adapter {adapter!r}; {offer}")
