"""Quotas in PostgreSQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import msgspec
from psycopg.errors import UniqueViolation

from jobstore.audit import Actor
from jobstore.errors import QuotaNotFoundError, QuotaTakenError
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.keys import write_note
from jobstore.quotas import EPOCH, Owner, Quota, QuotaStatus, Slice, counted_since
from jobstore.rules.quota_notes import quota_note
from jobstore.rules.quotas import QuotaBooking, status_of, summed
from jobstore.rules.rows import Row, trimmed

_COLUMNS = "id, owner_kind, owner, kind, most, currency, period, rolling, zone, created_at"
# Not FOR UPDATE: a slice's foreign key takes FOR KEY SHARE, and who settles must not wait for who submits.
_LOCK = f"""
SELECT {_COLUMNS}, clock_timestamp() AS now FROM quota
WHERE (owner_kind, owner) IN (SELECT * FROM unnest(%(kinds)s::text[], %(owners)s::text[])) ORDER BY id FOR NO KEY UPDATE
"""
_SLICES = """
SELECT slice.* FROM unnest(%(ids)s::uuid[], %(since)s::timestamptz[]) AS wanted (quota_id, since)
JOIN quota_slice AS slice ON slice.quota_id = wanted.quota_id AND slice.starts_at >= wanted.since
ORDER BY quota_id, starts_at
"""
# Of a quota whose window nobody has looked at yet, all.
_SLICES_OF = """
SELECT slice.* FROM quota
JOIN unnest(%(kinds)s::text[], %(owners)s::text[]) AS asked (kind, owner)
    ON quota.owner_kind = asked.kind AND quota.owner = asked.owner
LEFT JOIN unnest(%(ids)s::uuid[], %(since)s::timestamptz[]) AS known (quota_id, since) ON known.quota_id = quota.id
JOIN quota_slice AS slice ON slice.quota_id = quota.id AND slice.starts_at >= coalesce(known.since, '-infinity')
ORDER BY slice.quota_id, slice.starts_at
"""
_ADD = """
INSERT INTO quota_slice AS slice (quota_id, starts_at, held, used)
SELECT * FROM unnest(%(quotas)s::uuid[], %(starts)s::timestamptz[], %(held)s::numeric[], %(used)s::numeric[])
ON CONFLICT (quota_id, starts_at) DO UPDATE SET held = slice.held + EXCLUDED.held, used = slice.used + EXCLUDED.used
"""
_SETTLE = """
UPDATE quota_slice SET held = held + %(held)s, used = used + %(used)s
WHERE quota_id = %(quota_id)s AND starts_at = %(starts_at)s
"""
_INSERT = f"""
INSERT INTO quota ({_COLUMNS}) VALUES
    (%(id)s, %(owner_kind)s, %(owner)s, %(kind)s, %(most)s, %(currency)s, %(period)s, %(rolling)s, %(zone)s,
     clock_timestamp())
RETURNING {_COLUMNS}
"""
# What unfinished jobs hold is let go of yet, however old it is.
_PURGE = """
DELETE FROM quota_slice WHERE (quota_id, starts_at) IN (
    SELECT slice.quota_id, slice.starts_at
    FROM unnest(%(ids)s::uuid[], %(since)s::timestamptz[]) AS counted (quota_id, since)
    JOIN quota_slice AS slice ON slice.quota_id = counted.quota_id AND slice.starts_at < counted.since
    WHERE held = 0 LIMIT %(limit)s FOR UPDATE OF slice SKIP LOCKED
)
"""


_MOST_KNOWN = 10_000


class Since:
    """From where on the slices of quotas were counted when they were last looked at: a window only ever moves on."""

    def __init__(self) -> None:
        """Knows of none."""
        self._known: dict[UUID, datetime] = {}
        self._of: dict[Owner, tuple[UUID, ...]] = {}

    def of(self, owners: Sequence[Owner]) -> dict[UUID, datetime]:
        """By quota."""
        return {quota_id: self._known[quota_id] for owner in owners for quota_id in self._of.get(owner, ())}

    def learn(self, quotas: Iterable[Quota], since: Mapping[UUID, datetime]) -> None:
        """Remember."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._of.clear()
        self._known |= since
        by_owner: dict[Owner, list[UUID]] = {}
        for quota in quotas:
            by_owner.setdefault((quota.owner_kind, quota.owner), []).append(quota.id)
        self._of |= {owner: tuple(ids) for owner, ids in by_owner.items()}


async def admission(
    connection: Connection, owners: Sequence[Owner], since: Since
) -> tuple[list[Quota], dict[UUID, list[Slice]], datetime]:
    """The owners' quotas, locked as ``lock`` does it, with the slices that count; in a pipeline in one go."""
    arguments = _named(owners)
    locked = await connection.execute(_LOCK, arguments)
    # A statement of its own, begun after the locks were had: that one's snapshot may be from before.
    known = since.of(owners)
    counted = await connection.execute(_SLICES_OF, arguments | {"ids": list(known), "since": list(known.values())})
    quotas, now = _locked(await locked.fetchall())
    starts = {quota.id: counted_since(quota, now) for quota in quotas}
    since.learn(quotas, starts)
    found: dict[UUID, list[Slice]] = {}
    for row in await counted.fetchall():
        start = starts.get(row["quota_id"])
        if start is not None and row["starts_at"] >= start:
            found.setdefault(row.pop("quota_id"), []).append(Slice(**row))
    if any(known.get(quota_id, start) > start for quota_id, start in starts.items()):
        found = await slices(connection, starts)  # the server's clock was set back, or another server took over
    return quotas, found, now


async def lock(connection: Connection, owners: Sequence[Owner]) -> tuple[list[Quota], datetime]:
    """The owners' quotas, locked in the order of their ids; and the store's clock where there are any."""
    return _locked(await every(connection, _LOCK, _named(owners)))


def _named(owners: Sequence[Owner]) -> dict[str, list[str]]:
    """The arguments of what is asked about owners."""
    return {"kinds": [kind for kind, _ in owners], "owners": [owner for _, owner in owners]}


def _locked(rows: Sequence[Row]) -> tuple[list[Quota], datetime]:
    """The quotas of rows of ``_LOCK``, and the store's clock."""
    now = max((row.pop("now") for row in rows), default=EPOCH)
    return [_to_quota(row) for row in rows], now


async def slices(connection: Connection, since: Mapping[UUID, datetime]) -> dict[UUID, list[Slice]]:
    """The slices of each quota from an instant on."""
    found: dict[UUID, list[Slice]] = {}
    for row in await every(connection, _SLICES, {"ids": list(since), "since": list(since.values())}):
        found.setdefault(row.pop("quota_id"), []).append(Slice(**row))
    return found


async def book(connection: Connection, bookings: Iterable[QuotaBooking]) -> None:
    """Change slices, in an order that all transactions keep. One of a quota that is gone is passed over."""
    ordered = summed(bookings)
    if ordered and all(booking.held >= 0 and booking.used >= 0 for booking in ordered):
        await _add(connection, ordered)
        return
    for booking in ordered:
        if booking.held >= 0 and booking.used >= 0:
            await _add(connection, [booking])
        else:
            await connection.execute(_SETTLE, dataclasses.asdict(booking))


async def _add(connection: Connection, bookings: Sequence[QuotaBooking]) -> None:
    """In one statement."""
    arguments = {
        "quotas": [booking.quota_id for booking in bookings],
        "starts": [booking.starts_at for booking in bookings],
        "held": [booking.held for booking in bookings],
        "used": [booking.used for booking in bookings],
    }
    await connection.execute(_ADD, arguments)


async def add(connection: Connection, quota: Quota, by: Actor | None) -> Quota:
    """Insert a quota. Raises QuotaTakenError."""
    try:
        made = _to_quota(await sole(connection, _INSERT, msgspec.structs.asdict(quota)))
    except UniqueViolation:
        raise QuotaTakenError(f"there is such a quota already: {quota.label}") from None
    await _note(connection, by, "quota.created", made)
    return made


async def change(connection: Connection, quota_id: UUID, most: Decimal, by: Actor | None) -> Quota:
    """Set a quota's limit; where it is that already, nothing is written down. Raises QuotaNotFoundError."""
    query = f"SELECT {_COLUMNS} FROM quota WHERE id = %(id)s FOR NO KEY UPDATE"
    row = await one(connection, query, {"id": quota_id})
    if row is None:
        raise QuotaNotFoundError(f"no quota {quota_id}")
    before = _to_quota(row)
    if most == before.most:
        return before
    await connection.execute("UPDATE quota SET most = %(most)s WHERE id = %(id)s", {"id": quota_id, "most": most})
    changed = _to_quota(row | {"most": most})
    await _note(connection, by, "quota.changed", changed, before)
    return changed


async def delete(connection: Connection, quota_id: UUID, by: Actor | None) -> bool:
    """Delete a quota and all that was counted for it; False if there is none."""
    row = await one(connection, f"DELETE FROM quota WHERE id = %(id)s RETURNING {_COLUMNS}", {"id": quota_id})
    if row is not None:
        await _note(connection, by, "quota.deleted", _to_quota(row))
    return row is not None


async def _note(
    connection: Connection, by: Actor | None, action: str, quota: Quota, before: Quota | None = None
) -> None:
    if by is not None:
        await write_note(connection, quota_note(by, action, quota, before))


async def statuses(connection: Connection, owners: Sequence[Owner] | None) -> tuple[QuotaStatus, ...]:
    """The quotas of these owners (None: all), oldest first, as they stand."""
    query, arguments = f"SELECT {_COLUMNS} FROM quota", dict[str, object]()
    if owners is not None:
        query += " WHERE (owner_kind, owner) IN (SELECT * FROM unnest(%(kinds)s::text[], %(owners)s::text[]))"
        arguments = {"kinds": [kind for kind, _ in owners], "owners": [owner for _, owner in owners]}
    quotas = [_to_quota(row) for row in await every(connection, f"{query} ORDER BY created_at, id", arguments)]
    now: datetime = (await sole(connection, "SELECT clock_timestamp() AS now", {}))["now"]
    found = await slices(connection, {quota.id: counted_since(quota, now) for quota in quotas})
    return tuple(status_of(quota, found.get(quota.id, ()), now) for quota in quotas)


async def purge(connection: Connection, limit: int) -> None:
    """Delete slices that no window looks back to."""
    quotas = [_to_quota(row) for row in await every(connection, f"SELECT {_COLUMNS} FROM quota", {})]
    now: datetime = (await sole(connection, "SELECT clock_timestamp() AS now", {}))["now"]
    since = [counted_since(quota, now) for quota in quotas]
    await connection.execute(_PURGE, {"ids": [quota.id for quota in quotas], "since": since, "limit": limit})


def _to_quota(row: Row) -> Quota:
    return msgspec.convert(row | {"most": trimmed(row["most"])}, Quota)
