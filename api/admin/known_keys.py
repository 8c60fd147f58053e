"""The keys that pages offer, and whose names they know."""

from __future__ import annotations

from uuid import UUID

from api.services import Services
from jobstore.keys import ApiKey, KeyFilter

_MOST = 500


async def known_keys(services: Services) -> tuple[ApiKey, ...]:
    """The 500 oldest keys; up to two seconds old."""
    found: tuple[ApiKey, ...] = await services.glances.get(
        "keys", lambda: services.store.list_keys(KeyFilter(limit=_MOST))
    )
    return found


async def key_names(services: Services) -> dict[UUID, str]:
    """Their names."""
    return {key.id: key.name for key in await known_keys(services)}


async def key_choices(services: Services) -> list[tuple[str, str]]:
    """Their ids and names, as a form offers them."""
    return [(str(key.id), key.name) for key in await known_keys(services)]
