"""Which names say that the value is a secret: it is left out of logs and traces, whoever put it there."""

from __future__ import annotations

_SECRET_NAMES = frozenset(
    {"authorization", "api_key", "api-key", "key", "secret", "token_secret", "password", "x-api-key", "x-bf-vk"}
)


def is_secret(name: str) -> bool:
    """True where what is called so is not to be told."""
    return name.lower() in _SECRET_NAMES
