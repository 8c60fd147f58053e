"""Making, changing and deleting quotas, as the API and the admin pages do it alike. Errors are problems."""

from __future__ import annotations

from uuid import UUID

from api.problems import ProblemError
from api.quota_fields import limit_of, quota_of
from api.quota_schemas import QuotaRequest
from api.services import Services
from jobstore.audit import Actor
from jobstore.errors import KeyNotFoundError, QuotaNotFoundError, QuotaTakenError
from jobstore.quotas import Quota, QuotaStatus

_MOST_AN_OWNER = 20
"""So many rows does a submit lock at most for each of its key, its team and its customer."""


async def made_quota(services: Services, data: QuotaRequest, by: Actor) -> QuotaStatus:
    """A new quota, as it stands."""
    new = quota_of(data, services.settings.jobs.currency)
    if new.owner_kind == "key":
        await _require_key(services, UUID(new.owner))
    if len(await services.store.quotas([(new.owner_kind, new.owner)])) >= _MOST_AN_OWNER:
        raise ProblemError(409, "too_many_quotas", f"an owner has at most {_MOST_AN_OWNER} quotas", field="owner")
    try:
        quota = await services.store.create_quota(new, by)
    except QuotaTakenError:
        detail = "there is a quota of that kind for that period already: change its limit"
        raise ProblemError(409, "quota_exists", detail) from None
    return await _status(services, quota)


async def found_quota(services: Services, quota_id: str) -> Quota:
    """The quota of that id."""
    wanted = parsed_quota_id(quota_id)
    for status in await services.store.quotas():
        if status.quota.id == wanted:
            return status.quota
    raise no_quota()


async def limited_quota(services: Services, quota: Quota, limit: int | str, by: Actor) -> QuotaStatus:
    """The quota with another limit, as it stands."""
    try:
        changed = await services.store.change_quota(quota.id, limit_of(limit, quota.kind), by)
    except QuotaNotFoundError:
        raise no_quota() from None
    return await _status(services, changed)


async def delete_quota_of(services: Services, quota: Quota, by: Actor) -> None:
    """Delete a quota and what was counted for it."""
    if not await services.store.delete_quota(quota.id, by):
        raise no_quota()


def no_quota() -> ProblemError:
    """The one answer for quotas that don't exist, and for those of others."""
    return ProblemError(404, "quota_not_found", "no quota with that id")


def parsed_quota_id(text: str) -> UUID:
    """The id in its canonical form. Raises ProblemError: anything else is a quota that isn't there."""
    try:
        quota_id = UUID(text)
    except ValueError:
        raise no_quota() from None
    if str(quota_id) != text.lower():
        raise no_quota()
    return quota_id


async def _status(services: Services, quota: Quota) -> QuotaStatus:
    """How the quota stands. Raises ProblemError where it was deleted meanwhile."""
    for status in await services.store.quotas([(quota.owner_kind, quota.owner)]):
        if status.quota.id == quota.id:
            return status
    raise no_quota()


async def _require_key(services: Services, key_id: UUID) -> None:
    try:
        await services.store.get_key(key_id)
    except KeyNotFoundError:
        raise ProblemError(404, "key_not_found", "no key with that id", field="owner") from None
