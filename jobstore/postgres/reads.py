"""Events, cache entries, keys and the ledger."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.ids import uuid7
from jobstore.job import JobEvent, Picture
from jobstore.ledger import Balance, UsageRow
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.protocol import ApiKey, CachedPictures
from jobstore.rules.rows import Row, to_usage, trimmed

_KEY = "SELECT id, name, admin, hint, created_at, revoked_at, weight FROM api_key "
_INSERT_KEY = """
INSERT INTO api_key (id, name, secret_hash, hint, admin, weight)
VALUES (%(id)s, %(name)s, %(secret_hash)s, %(hint)s, %(admin)s, %(weight)s)
RETURNING id, name, admin, hint, created_at, revoked_at, weight
"""


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


async def create_key(
    connection: Connection, name: str, secret_hash: str, hint: str, admin: bool, weight: float
) -> ApiKey:
    """Insert a key."""
    arguments = {"id": uuid7(), "name": name, "secret_hash": secret_hash, "hint": hint, "admin": admin}
    arguments |= {"weight": weight}
    return _to_key(await sole(connection, _INSERT_KEY, arguments))


async def find_key(connection: Connection, secret_hash: str) -> ApiKey | None:
    """A key in force."""
    row = await one(connection, _KEY + "WHERE secret_hash = %(hash)s AND revoked_at IS NULL", {"hash": secret_hash})
    return None if row is None else _to_key(row)


async def list_keys(connection: Connection) -> tuple[ApiKey, ...]:
    """All keys."""
    cursor = await connection.execute(_KEY + "ORDER BY created_at, id")
    return tuple([_to_key(row) async for row in cursor])


async def revoke_key(connection: Connection, key_id: UUID) -> bool:
    """Revoke a key; the first revocation's time stays."""
    cursor = await connection.execute(
        "UPDATE api_key SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = %s", [key_id]
    )
    return cursor.rowcount > 0


def _to_key(row: Row) -> ApiKey:
    fields: dict[str, Any] = row
    return ApiKey(**fields)


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
