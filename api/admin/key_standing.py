"""What keys did and spent, for the pages of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct

from api.admin.quota_rows import QuotaRow, quota_row, tightest
from api.audit import audit_list
from api.cost_schemas import CostView
from api.costs import cost_list
from api.key_names import owners_names
from api.key_schemas import AuditView, KeyView
from api.services import Services
from jobstore.audit import AuditFilter
from jobstore.operating.jobs import JobFilter
from jobstore.quotas import QuotaStatus
from jobstore.reports.model import EVERYTHING, MOST_ROWS, ReportQuery, Where
from jobstore.rules.quotas import owners_of

_ENTRIES = 20
_MODELS = 50


class KeyRow(Struct, frozen=True, kw_only=True):
    """A key in the list: when it last submitted, what it spent this month, and the budget that ends first."""

    key: KeyView
    used_at: datetime | None
    spent: tuple[CostView, ...]
    budget: QuotaRow | None


class KeyStory(Struct, frozen=True, kw_only=True):
    """What a key's own page tells beside what it may do. Months are those of UTC."""

    used_at: datetime | None
    spent: tuple[CostView, ...]
    models: tuple[CostView, ...]
    budgets: tuple[QuotaRow, ...]
    entries: tuple[AuditView, ...]


async def key_rows(services: Services, keys: Sequence[KeyView]) -> list[KeyRow]:
    """The rows of a page of keys."""
    if not keys:
        return []
    owners = {owner for key in keys for owner in owners_of(key.id, key.team, key.customer)}
    statuses, spent, used = await asyncio.gather(
        services.store.quotas(sorted(owners)),
        _spent_by_key(services),
        asyncio.gather(*(_used_at(services, key.id) for key in keys)),
    )
    names = {str(key.id): key.name for key in keys}
    return [
        KeyRow(
            key=key,
            used_at=at,
            spent=spent.get(str(key.id), ()),
            budget=None if (full := tightest(_of(key, statuses))) is None else quota_row(full, names),
        )
        for key, at in zip(keys, used, strict=True)
    ]


async def key_story(services: Services, key: KeyView) -> KeyStory:
    """All about one key."""
    owners = owners_of(key.id, key.team, key.customer)
    query = _this_month(("model",), Where(key_id=key.id), _MODELS)
    statuses, report, entries, used_at = await asyncio.gather(
        services.store.quotas(owners),
        services.store.costs(query),
        audit_list(services, AuditFilter(target=str(key.id), limit=_ENTRIES)),
        _used_at(services, key.id),
    )
    costs = cost_list(query, report)
    names = await owners_names(services, statuses)
    return KeyStory(
        used_at=used_at,
        spent=costs.totals,
        models=costs.data,
        budgets=tuple(quota_row(status, names) for status in statuses),
        entries=entries.data,
    )


def _of(key: KeyView, statuses: Sequence[QuotaStatus]) -> list[QuotaStatus]:
    owners = owners_of(key.id, key.team, key.customer)
    return [status for status in statuses if (status.quota.owner_kind, status.quota.owner) in owners]


async def _spent_by_key(services: Services) -> dict[str, tuple[CostView, ...]]:
    """What each key spent this month, a row a currency. Who asks at once shares the sum."""
    query = _this_month(("key",), EVERYTHING, MOST_ROWS)
    report = await services.shared.read("spend of this month by key", lambda: services.store.costs(query))
    spent: dict[str, tuple[CostView, ...]] = {}
    for row in cost_list(query, report).data:
        key_id = row.group["key"]
        if key_id is not None:
            spent[key_id] = (*spent.get(key_id, ()), row)
    return spent


def _this_month(by: tuple[str, ...], where: Where, limit: int) -> ReportQuery:
    today = datetime.now(UTC).date()
    return ReportQuery(first=today.replace(day=1), last=today, by=by, where=where, limit=limit)


async def _used_at(services: Services, key_id: UUID) -> datetime | None:
    """When the key's newest job was submitted, among those that are still kept."""
    newest = (await services.store.list_jobs(JobFilter(key_id=key_id, limit=1))).jobs
    return newest[0].created_at if newest else None
