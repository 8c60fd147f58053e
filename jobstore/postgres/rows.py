"""Rows of the database to the job model and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from jobstore.job import CacheOutcome, Job, JobError, JobEvent, JobRequest, JobState, Picture

Row = dict[str, Any]
Connection = AsyncConnection[Row]

_COPIED = (
    "id", "lane", "batch_key", "fingerprint", "seedless_fingerprint", "leader_id", "key_id", "dimensions", "currency",
    "attempts", "rescues", "max_attempts", "cancel_requested", "worker_id",
    "created_at", "started_at", "finished_at", "start_at", "deadline_at",
)  # fmt: skip


_AMOUNTS = ("reserved", "charged", "gpu_seconds")


def to_job(row: Mapping[str, Any], pictures: Sequence[Picture] = (), queue_position: int | None = None) -> Job:
    """The job of a row of ``job``."""
    amounts: dict[str, Any] = {name: _trimmed(row[name]) for name in _AMOUNTS}
    return Job(
        **{name: row[name] for name in _COPIED},
        **amounts,
        state=JobState(row["state"]),
        request=msgspec.convert(row["request"], JobRequest),
        cache=CacheOutcome(row["cache"]),
        error=None if row["error"] is None else msgspec.convert(row["error"], JobError),
        warnings=tuple(row["warnings"]),
        pictures=tuple(pictures),
        queue_position=queue_position,
    )


def _trimmed(amount: Decimal) -> Decimal:
    """The same number without the zeros of its column's scale, and without an exponent."""
    return amount.quantize(Decimal(1)) if amount == amount.to_integral_value() else amount.normalize()


def to_event(row: Mapping[str, Any]) -> JobEvent:
    """The event of a row of ``job_event``."""
    return JobEvent(**{name: row[name] for name in ("seq", "job_id", "kind", "data", "at")})


async def pictures_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
    """The pictures of these jobs, in order."""
    cursor = await connection.execute(
        "SELECT job_id, index, key, seed, width, height, sha256, size_bytes, media_type "
        "FROM picture WHERE job_id = ANY(%s) ORDER BY job_id, index",
        [list(ids)],
    )
    found: dict[UUID, list[Picture]] = {}
    async for row in cursor:
        found.setdefault(row.pop("job_id"), []).append(Picture(**row))
    return found


async def add_pictures(connection: Connection, job_id: UUID, pictures: Sequence[Picture]) -> None:
    """Insert the pictures of a job."""
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "INSERT INTO picture (job_id, index, key, seed, width, height, sha256, size_bytes, media_type) "
            "VALUES (%(job_id)s, %(index)s, %(key)s, %(seed)s, %(width)s, %(height)s, %(sha256)s, %(size_bytes)s, "
            "%(media_type)s)",
            [{"job_id": job_id, **msgspec.structs.asdict(picture)} for picture in pictures],
        )


async def with_pictures(connection: Connection, row: Row) -> Job:
    """The job of a row, with its pictures."""
    found = await pictures_of(connection, [row["id"]])
    return to_job(row, found.get(row["id"], ()))


async def sole(connection: Connection, query: str, arguments: Mapping[str, Any]) -> Row:
    """The row of a query that always has one. Raises LookupError where it has none, against its promise."""
    row = await one(connection, query, arguments)
    if row is None:
        raise LookupError(f"no row came of {query}")
    return row


async def locked(connection: Connection, job_id: UUID) -> Row:
    """The row of a job that this transaction holds locked."""
    return await sole(connection, "SELECT * FROM job WHERE id = %(id)s", {"id": job_id})


async def one(connection: Connection, query: str, arguments: Mapping[str, Any]) -> Row | None:
    """The first row of a query."""
    return await (await connection.execute(query, arguments)).fetchone()
