"""Events, cache entries and the ledger."""

from __future__ import annotations

from uuid import UUID

import msgspec

from jobstore.job import JobEvent, Picture
from jobstore.ledger import Balance, UsageRow
from jobstore.postgres.columns import Connection, every, one
from jobstore.protocol import CachedPictures
from jobstore.rules.rows import to_usage, trimmed


async def events(connection: Connection, job_id: UUID, after: int) -> tuple[JobEvent, ...]:
    """A job's events in order."""
    cursor = await connection.execute(
        "SELECT seq, job_id, kind, data, at FROM job_event WHERE job_id = %s AND seq > %s ORDER BY seq", [job_id, after]
    )
    return tuple([JobEvent(**row) async for row in cursor])


async def events_since(connection: Connection, after: int, limit: int) -> tuple[JobEvent, ...]:
    """All jobs' events in the order of their numbers."""
    cursor = await connection.execute(
        "SELECT seq, job_id, kind, data, at FROM job_event WHERE seq > %s ORDER BY seq LIMIT %s", [after, limit]
    )
    return tuple([JobEvent(**row) async for row in cursor])


async def last_event(connection: Connection) -> int:
    """The highest number of an event."""
    row = await one(connection, "SELECT coalesce(max(seq), 0) AS seq FROM job_event", {})
    return 0 if row is None else int(row["seq"])


async def find_cached(connection: Connection, column: str, value: str) -> CachedPictures | None:
    """The newest cache entry with that fingerprint, or seedless fingerprint."""
    query = {
        "fingerprint": "SELECT * FROM cache_entry WHERE fingerprint = %(value)s",
        "seedless_fingerprint": "SELECT * FROM cache_entry WHERE seedless_fingerprint = %(value)s "
        "ORDER BY created_at DESC LIMIT 1",
    }[column]
    row = await one(connection, query, {"value": value})
    if row is None:
        return None
    pictures = msgspec.convert(row["pictures"], tuple[Picture, ...])
    return CachedPictures(fingerprint=row["fingerprint"], pictures=pictures, created_at=row["created_at"])


async def balance(connection: Connection, key_id: UUID, currency: str) -> Balance:
    """A key's balance; nothing for one that never had a job."""
    query = "SELECT reserved, charged FROM balance WHERE key_id = %(key_id)s AND currency = %(currency)s"
    row = await one(connection, query, {"key_id": key_id, "currency": currency})
    return Balance() if row is None else Balance(**{name: trimmed(amount) for name, amount in row.items()})


async def usage(connection: Connection, job_id: UUID) -> tuple[UsageRow, ...]:
    """A job's rows of the ledger."""
    query = f"SELECT {', '.join(UsageRow.__struct_fields__)} FROM usage WHERE job_id = %(id)s ORDER BY seq"
    found = await every(connection, query, {"id": job_id})
    return tuple(to_usage(row) for row in found)
