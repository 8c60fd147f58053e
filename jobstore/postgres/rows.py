"""The rows of one transaction: what the rules read, lock and write, in PostgreSQL's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg import Rollback
from psycopg.types.json import Jsonb

from jobstore.audit import AuditNote
from jobstore.job import JobRequest, NewJob, Picture
from jobstore.operating.jobs import JobFilter
from jobstore.postgres import quotas, replays, stuck, sweep
from jobstore.postgres.columns import Connection, adapted, every, one, sole
from jobstore.postgres.finding import find_ids
from jobstore.postgres.insert import EXPECTED, INSERT_JOBS, START_TAG, arguments_of, pace_of
from jobstore.postgres.keys import write_note
from jobstore.quotas import Owner, Quota, Slice
from jobstore.rules.quotas import QuotaBooking
from jobstore.rules.rows import NOBODY, NOW, Booking, Change, In, Place, Row, summed

_IN_FLIGHT = """
SELECT * FROM job
WHERE fingerprint = %(fingerprint)s AND joinable AND leader_id IS NULL AND state IN ('scheduled', 'queued', 'running')
FOR UPDATE
"""
# In the order that was asked for.
_ALONE = """
WHERE id = ANY(%(ids)s) AND leader_id IS NULL ORDER BY array_position(%(ids)s::uuid[], id) FOR UPDATE
"""
_HELD = "SELECT * FROM job WHERE lease_token = %(token)s FOR UPDATE"
_RESTORE = """
WITH gone AS (DELETE FROM job_archive WHERE id = ANY(%(ids)s) RETURNING *)
INSERT INTO job OVERRIDING SYSTEM VALUE SELECT * FROM gone
"""
_CACHE = """
INSERT INTO cache_entry (fingerprint, seedless_fingerprint, pictures)
VALUES (%(fingerprint)s, %(seedless_fingerprint)s, %(pictures)s)
ON CONFLICT (fingerprint) DO UPDATE SET pictures = EXCLUDED.pictures, created_at = clock_timestamp()
"""
_FORGET = """
WITH gone AS (DELETE FROM cache_entry WHERE fingerprint = %(fingerprint)s RETURNING pictures)
INSERT INTO doomed_output (key)
SELECT DISTINCT picture ->> 'key' FROM gone CROSS JOIN jsonb_array_elements(pictures) AS picture
ON CONFLICT (key) DO UPDATE SET doomed_at = clock_timestamp()
"""
_BOOK = """
INSERT INTO balance AS known (key_id, currency, reserved, charged)
VALUES (%(key_id)s, %(currency)s, greatest(%(reserved)s, 0), greatest(%(charged)s, 0))
ON CONFLICT (key_id, currency) DO UPDATE SET
    reserved = known.reserved + %(reserved)s, charged = known.charged + %(charged)s
"""
_USAGE = """
INSERT INTO usage (job_id, attempt, token, key_id, team, customer, lane, model, device, worker_id, outcome, error_code,
                   cache, gpu_seconds, price, charged, currency, dimensions, batch_rows, pictures, wanted_at)
VALUES (%(job_id)s, %(attempt)s, %(token)s, %(key_id)s, %(team)s, %(customer)s, %(lane)s, %(model)s, %(device)s,
        %(worker_id)s, %(outcome)s, %(error_code)s, %(cache)s, %(gpu_seconds)s, %(price)s, %(charged)s, %(currency)s,
        %(dimensions)s, %(batch_rows)s, %(pictures)s, %(wanted_at)s)
"""
_PICTURE = """
INSERT INTO picture (job_id, index, key, seed, width, height, sha256, size_bytes, media_type)
VALUES (%(job_id)s, %(index)s, %(key)s, %(seed)s, %(width)s, %(height)s, %(sha256)s, %(size_bytes)s, %(media_type)s)
"""


class PostgresRows:
    """A ``jobstore.rules.rows.Rows`` on a connection that is in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._bookings: list[Booking] = []
        self._quota_bookings: list[QuotaBooking] = []

    async def now(self) -> datetime:
        now: datetime = (await sole(self.connection, "SELECT clock_timestamp() AS now", {}))["now"]
        return now

    async def lock_job(self, job_id: UUID) -> Row | None:
        leader = await one(self.connection, "SELECT leader_id AS id FROM job WHERE id = %(id)s", {"id": job_id})
        while leader is not None and leader["id"] is not None:
            row = await self._lock_after(leader["id"], job_id)
            if row is None or row["leader_id"] in (leader["id"], None):
                return row
            leader = {"id": row["leader_id"]}
        return await self._lock_anywhere(job_id)

    async def lock_jobs(self, ids: Sequence[UUID]) -> list[Row]:
        found: dict[UUID, Row] = {}
        for table in ("job", "job_archive"):
            left = [job_id for job_id in ids if job_id not in found]
            query = f"SELECT * FROM {table} {_ALONE}"
            found |= {row["id"]: row for row in await every(self.connection, query, {"ids": left})}
        for job_id in ids:
            # It joined another, or was put away or brought back meanwhile, or is gone.
            if job_id not in found and (row := await self.lock_job(job_id)) is not None:
                found[job_id] = row
        return [found[job_id] for job_id in ids if job_id in found]

    async def _lock_after(self, leader_id: UUID, job_id: UUID) -> Row | None:
        """Lock the leader, then the job. Where the job has another leader by then, both locks are let go again."""
        row = None
        async with self.connection.transaction() as attempt:
            await self.connection.execute("SELECT 1 FROM job WHERE id = %(id)s FOR UPDATE", {"id": leader_id})
            row = await self._lock_anywhere(job_id)
            if row is not None and row["leader_id"] not in (leader_id, None):
                raise Rollback(attempt)
        return row

    async def _lock_anywhere(self, job_id: UUID) -> Row | None:
        # Where it is put away meanwhile, or brought back, the next look finds it.
        for table in ("job", "job_archive", "job"):
            found = await one(self.connection, f"SELECT * FROM {table} WHERE id = %(id)s FOR UPDATE", {"id": job_id})
            if found is not None:
                return found
        return None

    async def read_job(self, job_id: UUID) -> Row | None:
        return await one(self.connection, "SELECT * FROM any_job WHERE id = %(id)s", {"id": job_id})

    async def whose(self, ids: Sequence[UUID]) -> list[Row]:
        query = "SELECT DISTINCT key_id, team, customer FROM any_job WHERE id = ANY(%(ids)s)"
        return await every(self.connection, query, {"ids": list(ids)})

    async def lock_held(self, token: int) -> Row | None:
        # A lease that goes over to another job while this waits for the lock is found at the second look.
        return await one(self.connection, _HELD, {"token": token}) or await one(
            self.connection, _HELD, {"token": token}
        )

    async def lock_followers(self, leader_id: UUID) -> list[Row]:
        query = (
            "SELECT * FROM job WHERE leader_id = %(id)s AND state IN ('scheduled', 'queued', 'running') "
            "ORDER BY seq FOR UPDATE"
        )
        return await every(self.connection, query, {"id": leader_id})

    async def lock_in_flight(self, fingerprint: str) -> Row | None:
        return await one(self.connection, _IN_FLIGHT, {"fingerprint": fingerprint})

    async def restore(self, ids: Sequence[UUID]) -> None:
        await self.connection.execute(_RESTORE, {"ids": list(ids)})

    async def place(self, job: Row) -> Place:
        found = await sole(self.connection, START_TAG, {"lane": job["lane"], "key_id": job["key_id"]})
        offset_s = job["rank_at"] - job["start_tag"]
        return Place(start_tag=found["start_tag"], rank_at=found["start_tag"] + offset_s)

    async def add_job(self, new: NewJob, columns: Mapping[str, Any]) -> Row | None:
        decided = {name: value for name, value in columns.items() if value is not NOW}
        return await one(self.connection, INSERT_JOBS, arguments_of([(new, decided)]))

    async def change(self, changes: Sequence[Change]) -> list[Row]:
        alike: dict[str, list[dict[str, Any]]] = {}
        for columns, ids in changes:
            sets = ", ".join(f"{name} = {_written(name, value)}" for name, value in columns.items())
            values = {name: value.seconds if isinstance(value, In) else value for name, value in columns.items()}
            arguments = adapted({name: value for name, value in values.items() if value is not NOW})
            query = f"UPDATE job SET {sets} WHERE id = ANY(%(ids)s) RETURNING *"
            alike.setdefault(query, []).append(arguments | {"ids": list(ids)})
        return [row for query, several in alike.items() for row in await self._returned(query, several)]

    async def _returned(self, query: str, several: Sequence[dict[str, Any]]) -> list[Row]:
        """What a statement returns that is run with several arguments: in one way to the server and back."""
        if len(several) == 1:
            return await every(self.connection, query, several[0])
        async with self.connection.cursor() as cursor:
            await cursor.executemany(query, several, returning=True)
            return [row async for result in cursor.results() for row in await result.fetchall()]

    async def tell(self, events: Sequence[tuple[UUID, str, dict[str, Any]]]) -> None:
        await self._insert(
            "INSERT INTO job_event (job_id, kind, data) VALUES (%(job_id)s, %(kind)s, %(data)s)",
            [{"job_id": job_id, "kind": kind, "data": Jsonb(data)} for job_id, kind, data in events],
        )

    async def add_usage(self, rows: Sequence[Row]) -> None:
        await self._insert(_USAGE, [adapted(row) for row in rows])

    async def add_pictures(self, ids: Sequence[UUID], pictures: Sequence[Picture]) -> None:
        rows = [{"job_id": job_id, **msgspec.structs.asdict(picture)} for job_id in ids for picture in pictures]
        await self._insert(_PICTURE, rows)

    async def pictures_of(self, ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
        return await pictures_of(self.connection, ids)

    async def remember(self, row: Row, pictures: Sequence[Picture]) -> None:
        names = {name: row[name] for name in ("fingerprint", "seedless_fingerprint")}
        await forget_cached(self.connection, row["fingerprint"])
        await self.connection.execute(_CACHE, names | {"pictures": Jsonb(msgspec.to_builtins(pictures))})

    async def device_of(self, worker_id: UUID | None) -> str:
        found = await one(self.connection, "SELECT device FROM worker WHERE id = %(id)s", {"id": worker_id})
        return "" if found is None else str(found["device"])

    async def models_of(self, key_id: UUID) -> tuple[str, ...] | None:
        found = await one(self.connection, "SELECT models FROM api_key WHERE id = %(id)s", {"id": key_id})
        return None if found is None or found["models"] is None else tuple(found["models"])

    async def replay_of(self, key_id: UUID | None, key: str) -> Row | None:
        query = (
            "SELECT body_sha256, job_id FROM replay "
            "WHERE scope = %(scope)s AND key = %(key)s AND expires_at > clock_timestamp()"
        )
        return await one(self.connection, query, {"scope": key_id or NOBODY, "key": key})

    async def add_replay(self, new: NewJob) -> bool:
        return await replays.add(self.connection, new)

    async def lock_lost(self, lease_s: float, limit: int) -> list[Row]:
        return await sweep.lock_lost(self.connection, lease_s, limit)

    async def lock_due(self, limit: int) -> list[Row]:
        return await sweep.lock_due(self.connection, limit)

    async def find_late(self, limit: int) -> list[UUID]:
        return await sweep.find_late(self.connection, limit)

    async def find_jobs(self, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
        return await find_ids(self.connection, where, limit)

    async def note(self, note: AuditNote) -> None:
        await write_note(self.connection, note)

    async def ring_again(self, after_s: float, limit: int) -> list[str]:
        return await sweep.ring_again(self.connection, after_s, limit)

    async def expected_s(self, request: JobRequest) -> float:
        return float((await sole(self.connection, EXPECTED, pace_of(request)))["expected_s"])

    async def open_lanes(self) -> frozenset[str]:
        return await stuck.open_lanes(self.connection)

    async def lock_stuck(self, served: Sequence[str], limit: int) -> list[Row]:
        return await stuck.lock_stuck(self.connection, served, limit)

    async def count_tenants(self) -> None:
        await sweep.count_tenants(self.connection)

    def book(self, bookings: Sequence[Booking]) -> None:
        self._bookings += bookings

    async def lock_quotas(self, owners: Sequence[Owner]) -> tuple[list[Quota], datetime]:
        return await quotas.lock(self.connection, owners)

    async def slices(self, since: Mapping[UUID, datetime]) -> dict[UUID, list[Slice]]:
        return await quotas.slices(self.connection, since)

    def book_quotas(self, bookings: Sequence[QuotaBooking]) -> None:
        self._quota_bookings += bookings

    async def flush(self) -> None:
        """Write the bookings, in the order of their keys: the last locks that a transaction takes."""
        await quotas.book(self.connection, self._quota_bookings)
        for booking in summed(self._bookings):
            await self.connection.execute(_BOOK, dataclasses.asdict(booking))

    async def _insert(self, query: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            async with self.connection.cursor() as cursor:
                await cursor.executemany(query, rows)


def _written(name: str, value: Any) -> str:
    if value is NOW:
        return "clock_timestamp()"
    if isinstance(value, In):
        return f"clock_timestamp() + make_interval(secs => %({name})s)"
    return f"%({name})s"


async def pictures_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
    """The pictures of these jobs, in order."""
    query = (
        "SELECT job_id, index, key, seed, width, height, sha256, size_bytes, media_type "
        "FROM picture WHERE job_id = ANY(%(ids)s) ORDER BY job_id, index"
    )
    found: dict[UUID, list[Picture]] = {}
    for row in await every(connection, query, {"ids": list(ids)}):
        found.setdefault(row.pop("job_id"), []).append(Picture(**row))
    return found


async def forget_cached(connection: Connection, fingerprint: str) -> None:
    """Drop a cache entry; its pictures are doomed unless something else points at them."""
    await connection.execute(_FORGET, {"fingerprint": fingerprint})
