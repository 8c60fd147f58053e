"""Events, cache entries and the ledger."""

from __future__ import annotations

from uuid import UUID

import msgspec

from jobstore.job import JobEvent, Picture
from jobstore.ledger import Balance, UsageRow
from jobstore.protocol import CachedPictures
from jobstore.rules.rows import to_usage, trimmed
from jobstore.sqlite.database import Database

_EVENT = "SELECT seq, job_id, kind, data, at FROM job_event"


async def events(database: Database, job_id: UUID, after: int) -> tuple[JobEvent, ...]:
    """A job's events in order."""
    query = f"{_EVENT} WHERE job_id = :job_id AND seq > :after ORDER BY seq"
    return tuple(JobEvent(**row) for row in await database.every(query, {"job_id": job_id, "after": after}))


async def events_since(database: Database, after: int, limit: int) -> tuple[JobEvent, ...]:
    """All jobs' events in the order of their numbers."""
    query = f"{_EVENT} WHERE seq > :after ORDER BY seq LIMIT :limit"
    return tuple(JobEvent(**row) for row in await database.every(query, {"after": after, "limit": limit}))


async def last_event(database: Database) -> int:
    """The highest number of an event."""
    row = await database.one("SELECT coalesce(max(seq), 0) AS seq FROM job_event")
    return 0 if row is None else int(row["seq"])


async def find_cached(database: Database, column: str, value: str) -> CachedPictures | None:
    """The newest cache entry with that fingerprint, or seedless fingerprint."""
    query = f"SELECT * FROM cache_entry WHERE {column} = :value ORDER BY created_at DESC LIMIT 1"
    row = await database.one(query, {"value": value})
    if row is None:
        return None
    pictures = msgspec.convert(row["pictures"], tuple[Picture, ...])
    return CachedPictures(fingerprint=row["fingerprint"], pictures=pictures, created_at=row["created_at"])


async def balance(database: Database, key_id: UUID, currency: str) -> Balance:
    """A key's balance; nothing for one that never had a job."""
    query = "SELECT reserved, charged FROM balance WHERE key_id = :key_id AND currency = :currency"
    row = await database.one(query, {"key_id": key_id, "currency": currency})
    return Balance() if row is None else Balance(**{name: trimmed(amount) for name, amount in row.items()})


async def usage(database: Database, job_id: UUID) -> tuple[UsageRow, ...]:
    """A job's rows of the ledger."""
    names = ", ".join(UsageRow.__struct_fields__)
    found = await database.every(f"SELECT {names} FROM usage WHERE job_id = :id ORDER BY seq", {"id": job_id})
    return tuple(to_usage(row) for row in found)
