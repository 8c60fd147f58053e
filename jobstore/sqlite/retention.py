"""Deleting what is past its age, in batches."""

from __future__ import annotations

from collections.abc import Sequence

from jobstore.retention import DOOMED_GRACE_S, Ages, Purged
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.rows import doom

_OLD = {
    "jobs": "SELECT id FROM job WHERE finished_at < :before ORDER BY finished_at LIMIT :limit",
    "events": "SELECT seq FROM (SELECT seq, at FROM job_event ORDER BY seq LIMIT :limit) WHERE at < :before",
    "outputs": ('SELECT job_id, "index", key FROM picture WHERE created_at < :before ORDER BY created_at LIMIT :limit'),
    "cache": (
        "SELECT fingerprint, pictures FROM cache_entry WHERE created_at < :before ORDER BY created_at LIMIT :limit"
    ),
    "usage": "SELECT seq FROM usage WHERE at < :before ORDER BY at LIMIT :limit",
    "deliveries": (
        "SELECT seq FROM webhook_delivery WHERE state <> 'pending' AND created_at < :before "
        "ORDER BY created_at LIMIT :limit"
    ),
}
_POINTED_AT = """
SELECT EXISTS (SELECT 1 FROM picture WHERE key = :key) OR EXISTS (SELECT 1 FROM cache_picture WHERE key = :key) AS found
"""


async def purge(database: Database, ages: Ages, limit: int) -> Purged:
    """Delete what of each kind is past its age, and idempotency keys and workers of old."""
    counts = {"doomed": 0}
    for kind, query in _OLD.items():
        age_s = getattr(ages, kind)
        if age_s is None:
            continue
        old = await database.every(query, {"before": now() - round(1e6 * age_s), "limit": limit})
        doomed = {key for row in old for key in await _delete(database, kind, row)}
        await doom(database, sorted(doomed))
        counts["pictures" if kind == "outputs" else kind] = len(old)
        counts["doomed"] += len(doomed)
    counts["replays"] = await database.execute("DELETE FROM replay WHERE expires_at < :now", {"now": now()})
    await database.execute(
        "DELETE FROM worker WHERE seen_at < :before "
        "AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker_id = worker.id AND lease_token IS NOT NULL)",
        {"before": now() - 86_400_000_000},
    )
    return Purged(**counts)


async def _delete(database: Database, kind: str, row: Row) -> list[str]:
    """Delete one old row; the keys of outputs that it pointed at."""
    if kind == "jobs":
        keys = [found["key"] for found in await database.every("SELECT key FROM picture WHERE job_id = :id", row)]
        for query in (
            "DELETE FROM picture WHERE job_id = :id",
            "DELETE FROM job_event WHERE job_id = :id",
            "DELETE FROM job WHERE id = :id",
        ):
            await database.execute(query, {"id": row["id"]})
        return keys
    if kind == "outputs":
        await database.execute('DELETE FROM picture WHERE job_id = :job_id AND "index" = :index', row)
        return [row["key"]]
    if kind == "cache":
        await database.execute("DELETE FROM cache_entry WHERE fingerprint = :fingerprint", row)
        return [picture["key"] for picture in row["pictures"]]
    table = {"events": "job_event", "usage": "usage", "deliveries": "webhook_delivery"}[kind]
    await database.execute(f"DELETE FROM {table} WHERE seq = :seq", row)
    return []


async def doomed(database: Database, limit: int) -> tuple[str, ...]:
    """Doomed keys that nothing points at, after their time of grace; one that something points at is pardoned."""
    query = "SELECT key FROM doomed_output WHERE doomed_at <= :before ORDER BY doomed_at LIMIT :limit"
    found = await database.every(query, {"before": now() - round(1e6 * DOOMED_GRACE_S), "limit": limit})
    keys = [row["key"] for row in found]
    pardoned = await pointed_at(database, keys)
    await bury(database, sorted(pardoned))
    return tuple(key for key in keys if key not in pardoned)


async def bury(database: Database, keys: Sequence[str]) -> None:
    """Forget doomed keys."""
    for key in keys:
        await database.execute("DELETE FROM doomed_output WHERE key = :key", {"key": key})


async def pointed_at(database: Database, keys: Sequence[str]) -> frozenset[str]:
    """Those of the keys that a job or a cache entry points at."""
    found = [(key, await database.one(_POINTED_AT, {"key": key})) for key in keys]
    return frozenset(key for key, row in found if row is not None and row["found"])
