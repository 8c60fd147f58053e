"""Events, cache entries, keys and the ledger."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.ids import uuid7
from jobstore.job import JobEvent, Picture
from jobstore.ledger import Balance, UsageRow
from jobstore.protocol import ApiKey, CachedPictures
from jobstore.rules.rows import Row, to_usage, trimmed
from jobstore.sqlite.database import Database, now

_EVENT = "SELECT seq, job_id, kind, data, at FROM job_event"
_KEY = "SELECT id, name, admin, hint, created_at, revoked_at, weight FROM api_key"


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


async def create_key(database: Database, name: str, secret_hash: str, hint: str, admin: bool, weight: float) -> ApiKey:
    """Insert a key."""
    row: dict[str, Any] = {"id": uuid7(), "name": name, "hint": hint, "admin": admin, "weight": weight}
    await database.insert("api_key", [{**row, "secret_hash": secret_hash, "created_at": now()}])
    return _to_key(await database.one(f"{_KEY} WHERE id = :id", row) or {})


async def find_key(database: Database, secret_hash: str) -> ApiKey | None:
    """A key in force."""
    row = await database.one(f"{_KEY} WHERE secret_hash = :hash AND revoked_at IS NULL", {"hash": secret_hash})
    return None if row is None else _to_key(row)


async def list_keys(database: Database) -> tuple[ApiKey, ...]:
    """All keys."""
    return tuple(_to_key(row) for row in await database.every(f"{_KEY} ORDER BY created_at, id"))


async def revoke_key(database: Database, key_id: UUID) -> bool:
    """Revoke a key; the first revocation's time stays."""
    query = "UPDATE api_key SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id"
    return await database.execute(query, {"id": key_id, "now": now()}) > 0


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


def _to_key(row: Row) -> ApiKey:
    fields: dict[str, Any] = row
    return ApiKey(**fields)
