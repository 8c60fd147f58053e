"""The rows of one transaction, in SQLite's words. A transaction that writes is alone: nothing need be locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import AuditNote
from jobstore.job import CacheOutcome, JobRequest, JobState, NewJob, Picture
from jobstore.operating.jobs import JobFilter
from jobstore.quotas import Owner, Quota, Slice
from jobstore.rules.fairness import expected_s
from jobstore.rules.quotas import QuotaBooking
from jobstore.rules.rows import NOBODY, NOW, Booking, Change, In, Place, Row
from jobstore.sqlite import quotas, stuck, sweep
from jobstore.sqlite.database import Database, micros, now
from jobstore.sqlite.finding import find_ids
from jobstore.sqlite.keys import write_note

_LIVE = "state IN ('scheduled', 'queued', 'running')"
_IN_FLIGHT = f"SELECT * FROM job WHERE fingerprint = :fingerprint AND joinable AND leader_id IS NULL AND {_LIVE}"
_PICTURE = "SELECT job_id, [index], key, seed, width, height, sha256, size_bytes, media_type FROM picture"

_DOOM = """
INSERT INTO doomed_output (key, doomed_at) VALUES (:key, :now)
ON CONFLICT (key) DO UPDATE SET doomed_at = excluded.doomed_at
"""


class SqliteRows:
    """A ``jobstore.rules.rows.Rows`` on a database that is in a transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._bookings: list[Booking] = []
        self._quota_bookings: list[QuotaBooking] = []

    async def now(self) -> datetime:
        return datetime.fromtimestamp(now() / 1e6, UTC)

    async def lock_job(self, job_id: UUID) -> Row | None:
        return await self.database.one("SELECT * FROM job WHERE id = :id", {"id": job_id})

    async def lock_jobs(self, ids: Sequence[UUID]) -> list[Row]:
        return [row for job_id in ids if (row := await self.lock_job(job_id)) is not None]

    async def whose(self, ids: Sequence[UUID]) -> list[Row]:
        return await self.lock_jobs(ids)

    async def read_job(self, job_id: UUID) -> Row | None:
        return await self.lock_job(job_id)

    async def lock_held(self, token: int) -> Row | None:
        return await self.database.one("SELECT * FROM job WHERE lease_token = :token", {"token": token})

    async def lock_followers(self, leader_id: UUID) -> list[Row]:
        query = f"SELECT * FROM job WHERE leader_id = :id AND {_LIVE} ORDER BY seq"
        return await self.database.every(query, {"id": leader_id})

    async def lock_in_flight(self, fingerprint: str) -> Row | None:
        return await self.database.one(_IN_FLIGHT, {"fingerprint": fingerprint})

    async def restore(self, ids: Sequence[UUID]) -> None:
        pass  # nothing is ever put away

    async def place(self, job: Row) -> Place:
        start_tag = await self._start_tag(job["lane"], job["key_id"])
        return Place(start_tag=start_tag, rank_at=start_tag + (job["rank_at"] - job["start_tag"]))

    async def _start_tag(self, lane: str, key_id: UUID | None) -> float:
        clock = await self.database.one("SELECT virtual_s FROM lane WHERE name = :lane", {"lane": lane})
        tail = await self.database.one(
            "SELECT start_tag + share_s AS tail FROM job "
            "WHERE leader_id IS NULL AND (state = 'queued' OR started_at IS NOT NULL) "
            "AND lane = :lane AND key_id IS :key_id ORDER BY start_tag DESC LIMIT 1",
            {"lane": lane, "key_id": key_id},
        )
        return max(0.0 if clock is None else clock["virtual_s"], 0.0 if tail is None else tail["tail"])

    async def add_job(self, new: NewJob, columns: Mapping[str, Any]) -> Row | None:
        row = _plain(new) | {name: value for name, value in columns.items() if value is not NOW}
        if row["joinable"] and row["leader_id"] is None and await self.lock_in_flight(new.fingerprint):
            return None
        if row["state"] == JobState.QUEUED and row["start_at"] is not None and micros(row["start_at"]) > now():
            row["state"] = JobState.SCHEDULED
        row["expected_s"] = await self.expected_s(new.request)
        row["share_s"] = 0.0 if row["state"] == JobState.SUCCEEDED else row["expected_s"] / new.weight
        row["start_tag"] = await self._start_tag(new.lane, new.key_id)
        row["rank_at"] = row["start_tag"] + (5 - new.request.priority) * new.priority_quantum_s
        await self.database.insert("job", [_timed(row, new)])
        return await self.lock_job(new.id)

    async def expected_s(self, request: JobRequest) -> float:
        return expected_s(request, await self._step_s(request))

    async def _step_s(self, request: JobRequest) -> float | None:
        """The pace of the model at the nearest size, by pixels."""
        found = await self.database.one(
            "SELECT step_s * :pixels / (width * height) AS step_s FROM pace WHERE model = :model "
            "ORDER BY abs(width * height - :pixels), seen_at DESC LIMIT 1",
            {"model": request.model, "pixels": request.width * request.height},
        )
        return None if found is None else float(found["step_s"])

    async def change(self, changes: Sequence[Change]) -> list[Row]:
        instant = now()
        for columns, ids in changes:
            values = {name: _instant(value, instant) for name, value in columns.items()}
            sets = ", ".join(f"{name} = :{name}" for name in values)
            for job_id in ids:
                await self.database.execute(f"UPDATE job SET {sets} WHERE id = :this", values | {"this": job_id})
        return await self.lock_jobs([job_id for _, ids in changes for job_id in ids])

    async def tell(self, events: Sequence[tuple[UUID, str, dict[str, Any]]]) -> None:
        instant = now()
        await self.database.insert(
            "job_event",
            [{"job_id": job_id, "kind": kind, "data": data, "at": instant} for job_id, kind, data in events],
        )

    async def add_usage(self, rows: Sequence[Row]) -> None:
        await self.database.insert("usage", [{**row, "at": now()} for row in rows])

    async def add_pictures(self, ids: Sequence[UUID], pictures: Sequence[Picture]) -> None:
        rows = [{"job_id": job_id, **msgspec.structs.asdict(picture)} for job_id in ids for picture in pictures]
        await self.database.insert("picture", [{**row, "created_at": now()} for row in rows])

    async def pictures_of(self, ids: Sequence[UUID]) -> dict[UUID, list[Picture]]:
        found: dict[UUID, list[Picture]] = {}
        for job_id in ids:
            rows = await self.database.every(f"{_PICTURE} WHERE job_id = :id ORDER BY [index]", {"id": job_id})
            for row in rows:
                found.setdefault(row.pop("job_id"), []).append(Picture(**row))
        return found

    async def remember(self, row: Row, pictures: Sequence[Picture]) -> None:
        fingerprint = {"fingerprint": row["fingerprint"]}
        await forget_cached(self.database, row["fingerprint"])
        entry = {
            **fingerprint,
            "seedless_fingerprint": row["seedless_fingerprint"],
            "pictures": msgspec.to_builtins(pictures),
            "created_at": now(),
        }
        await self.database.insert("cache_entry", [entry])
        await self.database.insert("cache_picture", [{**fingerprint, "key": picture.key} for picture in pictures])

    async def device_of(self, worker_id: UUID | None) -> str:
        found = await self.database.one("SELECT device FROM worker WHERE id = :id", {"id": worker_id})
        return "" if found is None else str(found["device"])

    async def models_of(self, key_id: UUID) -> tuple[str, ...] | None:
        found = await self.database.one("SELECT models FROM api_key WHERE id = :id", {"id": key_id})
        return None if found is None or found["models"] is None else tuple(found["models"])

    async def replay_of(self, key_id: UUID | None, key: str) -> Row | None:
        query = "SELECT body_sha256, job_id FROM replay WHERE scope = :scope AND key = :key AND expires_at > :now"
        return await self.database.one(query, {"scope": key_id or NOBODY, "key": key, "now": now()})

    async def add_replay(self, new: NewJob) -> bool:
        replay = new.replay
        if replay is None:
            return True
        scope = {"scope": new.key_id or NOBODY, "key": replay.key}
        known = None if replay.renew else await self.replay_of(new.key_id, replay.key)
        if known is not None and known["job_id"] != replay.instead_of:
            return False
        await self.database.execute("DELETE FROM replay WHERE scope = :scope AND key = :key", scope)
        expires_at = now() + round(1e6 * replay.keep_s)
        row = scope | {"body_sha256": replay.body_sha256, "job_id": new.id, "expires_at": expires_at}
        await self.database.insert("replay", [row])
        return True

    async def lock_lost(self, lease_s: float, limit: int) -> list[Row]:
        return await sweep.lock_lost(self.database, lease_s, limit)

    async def lock_due(self, limit: int) -> list[Row]:
        return await sweep.lock_due(self.database, limit)

    async def find_late(self, limit: int) -> list[UUID]:
        return await sweep.find_late(self.database, limit)

    async def find_jobs(self, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
        return await find_ids(self.database, where, limit)

    async def note(self, note: AuditNote) -> None:
        await write_note(self.database, note)

    async def ring_again(self, after_s: float, limit: int) -> list[str]:
        return await sweep.ring_again(self.database, after_s, limit)

    async def open_lanes(self) -> frozenset[str]:
        return await stuck.open_lanes(self.database)

    async def lock_stuck(self, served: Sequence[str], limit: int) -> list[Row]:
        return await stuck.lock_stuck(self.database, served, limit)

    async def count_tenants(self) -> None:
        await sweep.count_tenants(self.database)

    def book(self, bookings: Sequence[Booking]) -> None:
        self._bookings += bookings

    async def lock_quotas(self, owners: Sequence[Owner]) -> tuple[list[Quota], datetime]:
        return await quotas.lock(self.database, owners), await self.now()

    async def slices(self, since: Mapping[UUID, datetime]) -> dict[UUID, list[Slice]]:
        return await quotas.slices(self.database, since)

    def book_quotas(self, bookings: Sequence[QuotaBooking]) -> None:
        self._quota_bookings += bookings

    async def flush(self) -> None:
        """Write the bookings."""
        await quotas.book(self.database, self._quota_bookings)
        for booking in self._bookings:
            await self._book(booking)

    async def _book(self, booking: Booking) -> None:
        place = {"key_id": booking.key_id, "currency": booking.currency}
        where = "WHERE key_id = :key_id AND currency = :currency"
        known = await self.database.one(f"SELECT reserved, charged FROM balance {where}", place)
        amounts = {"reserved": booking.reserved, "charged": booking.charged}
        if known is None:
            await self.database.insert("balance", [place | amounts])
            return
        amounts = {name: known[name] + amount for name, amount in amounts.items()}
        await self.database.execute(
            f"UPDATE balance SET reserved = :reserved, charged = :charged {where}", place | amounts
        )


def _plain(new: NewJob) -> dict[str, Any]:
    request = new.request
    return {
        "state": JobState.QUEUED, "cache": CacheOutcome.MISS, "leader_id": None, "joinable": False, "reserved": 0,
        "id": new.id, "lane": new.lane, "model": request.model, "batch_key": new.batch_key,
        "request": msgspec.to_builtins(request), "format": request.format,
        "fingerprint": new.fingerprint, "seedless_fingerprint": new.seedless_fingerprint, "key_id": new.key_id,
        "dimensions": new.dimensions, "currency": new.currency, "price": new.price,
        "max_attempts": new.max_attempts, "attempts_allowed": new.max_attempts, "start_at": request.start_at,
        "team": new.team, "customer": new.customer, "quotas": [], "ceiling": new.ceiling, "rate": new.rate,
        "fallbacks": msgspec.to_builtins(new.fallbacks), "traceparent": new.traceparent, "warnings": list(new.warnings),
        "webhook": new.stored_webhook,
    }  # fmt: skip


def _timed(row: Row, new: NewJob) -> Row:
    instant = now()

    def after(seconds: float | None) -> int | None:
        return None if seconds is None else instant + round(1e6 * seconds)

    return row | {
        "rung_at": instant,
        "created_at": instant,
        "started_at": instant if row["state"] in (JobState.RUNNING, JobState.SUCCEEDED) else None,
        "finished_at": instant if row["state"] == JobState.SUCCEEDED else None,
        "start_by": after(new.request.start_deadline_s),
        "deadline_at": after(new.request.deadline_s),
    }


def _instant(value: Any, instant: int) -> Any:
    if value is NOW:
        return instant
    return instant + round(1e6 * value.seconds) if isinstance(value, In) else value


async def forget_cached(database: Database, fingerprint: str) -> None:
    """Drop a cache entry; its pictures are doomed unless something else points at them."""
    values = {"fingerprint": fingerprint}
    keys = await database.every("SELECT key FROM cache_picture WHERE fingerprint = :fingerprint", values)
    await doom(database, [row["key"] for row in keys])
    await database.execute("DELETE FROM cache_entry WHERE fingerprint = :fingerprint", values)


async def doom(database: Database, keys: Iterable[str]) -> None:
    """Put keys of outputs down as doomed, from now on."""
    for key in keys:
        await database.execute(_DOOM, {"key": key, "now": now()})
