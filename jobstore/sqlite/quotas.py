"""Quotas in SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec

from jobstore.audit import Actor
from jobstore.errors import QuotaNotFoundError, QuotaTakenError
from jobstore.quotas import Owner, Quota, QuotaStatus, Slice, counted_since
from jobstore.rules.quota_notes import quota_note
from jobstore.rules.quotas import QuotaBooking, status_of
from jobstore.rules.rows import Row, trimmed
from jobstore.sqlite.database import Database, micros, now
from jobstore.sqlite.keys import write_note

_SAME = ("owner_kind", "owner", "kind", "currency", "period", "rolling")


async def lock(database: Database, owners: Sequence[Owner]) -> list[Quota]:
    """The owners' quotas; a transaction that writes is alone anyhow."""
    query = "SELECT * FROM quota WHERE owner_kind = :kind AND owner = :owner ORDER BY created_at, id"
    return [
        _to_quota(row) for kind, owner in owners for row in await database.every(query, {"kind": kind, "owner": owner})
    ]


async def slices(database: Database, since: Mapping[UUID, datetime]) -> dict[UUID, list[Slice]]:
    """The slices of each quota from an instant on."""
    query = "SELECT * FROM quota_slice WHERE quota_id = :id AND starts_at >= :since ORDER BY starts_at"
    found: dict[UUID, list[Slice]] = {}
    for quota_id, first in since.items():
        for row in await database.every(query, {"id": quota_id, "since": micros(first)}):
            found.setdefault(row.pop("quota_id"), []).append(Slice(**row))
    return found


async def book(database: Database, bookings: Iterable[QuotaBooking]) -> None:
    """Change slices. One of a quota that is gone is passed over."""
    where = "WHERE quota_id = :quota_id AND starts_at = :starts_at"
    for booking in bookings:
        place = {"quota_id": booking.quota_id, "starts_at": micros(booking.starts_at)}
        known = await database.one(f"SELECT held, used FROM quota_slice {where}", place)
        amounts = {"held": booking.held, "used": booking.used}
        if known is not None:
            amounts = {name: known[name] + amount for name, amount in amounts.items()}
            await database.execute(f"UPDATE quota_slice SET held = :held, used = :used {where}", place | amounts)
        elif await database.one("SELECT 1 FROM quota WHERE id = :quota_id", place):
            await database.insert("quota_slice", [place | amounts])


async def add(database: Database, quota: Quota, by: Actor | None) -> Quota:
    """Insert a quota. Raises QuotaTakenError."""
    row = msgspec.structs.asdict(quota) | {"created_at": now()}
    same = " AND ".join(f"{name} = :{name}" for name in _SAME)
    if await database.one(f"SELECT 1 FROM quota WHERE {same}", {name: row[name] for name in _SAME}):
        raise QuotaTakenError(f"there is such a quota already: {quota.label}")
    await database.insert("quota", [row])
    made = await _get(database, quota.id)
    await _note(database, by, "quota.created", made)
    return made


async def change(database: Database, quota_id: UUID, most: Decimal, by: Actor | None) -> Quota:
    """Set a quota's limit; where it is that already, nothing is written down. Raises QuotaNotFoundError."""
    before = await _get(database, quota_id)
    if most == before.most:
        return before
    await database.execute("UPDATE quota SET most = :most WHERE id = :id", {"id": quota_id, "most": most})
    changed = await _get(database, quota_id)
    await _note(database, by, "quota.changed", changed, before)
    return changed


async def _get(database: Database, quota_id: UUID) -> Quota:
    row = await database.one("SELECT * FROM quota WHERE id = :id", {"id": quota_id})
    if row is None:
        raise QuotaNotFoundError(f"no quota {quota_id}")
    return _to_quota(row)


async def delete(database: Database, quota_id: UUID, by: Actor | None) -> bool:
    """Delete a quota and all that was counted for it; False if there is none."""
    row = await database.one("SELECT * FROM quota WHERE id = :id", {"id": quota_id})
    if row is None:
        return False
    await database.execute("DELETE FROM quota_slice WHERE quota_id = :id", {"id": quota_id})
    await database.execute("DELETE FROM quota WHERE id = :id", {"id": quota_id})
    await _note(database, by, "quota.deleted", _to_quota(row))
    return True


async def _note(database: Database, by: Actor | None, action: str, quota: Quota, before: Quota | None = None) -> None:
    if by is not None:
        await write_note(database, quota_note(by, action, quota, before))


async def statuses(database: Database, owners: Sequence[Owner] | None) -> tuple[QuotaStatus, ...]:
    """The quotas of these owners (None: all), oldest first, as they stand."""
    rows = await database.every("SELECT * FROM quota ORDER BY created_at, id", {})
    every = [_to_quota(row) for row in rows]
    quotas = [quota for quota in every if owners is None or (quota.owner_kind, quota.owner) in owners]
    instant = datetime.fromtimestamp(now() / 1e6, UTC)
    found = await slices(database, {quota.id: counted_since(quota, instant) for quota in quotas})
    return tuple(status_of(quota, found.get(quota.id, ()), instant) for quota in quotas)


async def purge(database: Database, limit: int) -> None:
    """Delete slices that no window looks back to, but for those that unfinished jobs hold something of."""
    instant = datetime.fromtimestamp(now() / 1e6, UTC)
    for row in await database.every("SELECT * FROM quota", {}):
        since = micros(counted_since(_to_quota(row), instant))
        await database.execute(
            "DELETE FROM quota_slice WHERE (quota_id, starts_at) IN (SELECT quota_id, starts_at FROM quota_slice "
            "WHERE quota_id = :id AND starts_at < :since AND CAST(held AS REAL) = 0 LIMIT :limit)",
            {"id": row["id"], "since": since, "limit": limit},
        )


def _to_quota(row: Row) -> Quota:
    return msgspec.convert(row | {"most": trimmed(row["most"])}, Quota)
