"""What may stand in an API key: checked alike for the API and the command."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jobstore.key_networks import MAX_NETWORKS, canonical
from jobstore.keys import MAX_WEIGHT, MIN_WEIGHT, OWNER_PATTERN, Scope, scopes_of

MAX_NAME = 100
MAX_MODELS = 100
MAX_LIFE = timedelta(days=3650)

FindModel = Callable[[str], str | None]
"""The own name of the model of a name or alias; None where there is no such model."""


class KeyFieldError(ValueError):
    """``field`` can't be taken; the message says why, in words that follow the field's name."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field
        self.detail = detail


def checked(fields: Mapping[str, Any], find_model: FindModel) -> dict[str, Any]:
    """The fields of a ``NewKey`` or a ``KeyChange`` as the store takes them. Raises KeyFieldError."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": _name,
        "scopes": _scopes,
        "weight": _weight,
        "team": lambda value: _owner("team", value),
        "customer": lambda value: _owner("customer", value),
        "models": lambda value: _models(value, find_model),
        "networks": _networks,
        "expires_at": _expires_at,
    }
    return {name: checks[name](value) for name, value in fields.items()}


def _name(value: str) -> str:
    name = value.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise KeyFieldError("name", f"must be 1 to {MAX_NAME} printable characters")
    return name


def _scopes(value: tuple[str, ...]) -> tuple[Scope, ...]:
    try:
        scopes = scopes_of(value)
    except ValueError:
        scopes = ()
    if not scopes:
        raise KeyFieldError("scopes", f"must be one or more of: {', '.join(Scope)}")
    return scopes


def _weight(value: float) -> float:
    if not MIN_WEIGHT <= value <= MAX_WEIGHT:  # so NaN is refused, too
        raise KeyFieldError("weight", f"must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}")
    return float(value)


def _owner(field: str, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(OWNER_PATTERN, value):
        raise KeyFieldError(field, "must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or a digit")
    return value


def _models(value: tuple[str, ...] | None, find_model: FindModel) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not 0 < len(value) <= MAX_MODELS:
        raise KeyFieldError("models", f"must be 1 to {MAX_MODELS} names; left out, the key may use all models")
    found = {name: find_model(name) for name in value}
    for name, own in found.items():
        if own is None:
            raise KeyFieldError("models", f"must name models of the settings; {name!a} is none")
    return tuple(sorted({own for own in found.values() if own is not None}))


def _networks(value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not 0 < len(value) <= MAX_NETWORKS:
        raise KeyFieldError("networks", f"must be 1 to {MAX_NETWORKS}; left out, the key may be used from anywhere")
    try:
        return tuple(sorted({canonical(network) for network in value}))
    except ValueError as error:
        raise KeyFieldError("networks", f"must be networks: {error}") from None


def _expires_at(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    now = datetime.now(UTC)
    if value <= now:
        raise KeyFieldError("expires_at", "must lie ahead; to end a key at once, revoke it")
    if value > now + MAX_LIFE:
        raise KeyFieldError("expires_at", f"must be within {MAX_LIFE.days} days; left out, the key never expires")
    return value.astimezone(UTC)
