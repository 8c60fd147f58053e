"""The names that people gave to keys, by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

from api.services import Services
from jobstore.errors import KeyNotFoundError
from jobstore.keys import ApiKey
from jobstore.quotas import QuotaStatus


async def owners_names(services: Services, statuses: Iterable[QuotaStatus]) -> dict[str, str]:
    """The names of the keys among their owners, by id."""
    return await names_of_keys(services, {one.quota.owner for one in statuses if one.quota.owner_kind == "key"})


async def names_of_keys(services: Services, ids: Iterable[str]) -> dict[str, str]:
    """The names of keys, by id; what is no key's id is left out."""
    found = await asyncio.gather(*(_key(services, key_id) for key_id in sorted(ids)))
    return {str(key.id): key.name for key in found if key is not None}


async def _key(services: Services, key_id: str) -> ApiKey | None:
    try:
        return await services.store.get_key(UUID(key_id))
    except (ValueError, KeyNotFoundError):
        return None
