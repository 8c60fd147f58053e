"""The job store in a SQLite file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

from msgspec.structs import replace

from jobstore.audit import WHOLE_LOG, Actor, AuditFilter, AuditPage
from jobstore.job import Job, JobEvent, NewJob, Picture
from jobstore.keys import ALL_KEYS, ApiKey, KeyFilter, KeyMatch
from jobstore.ledger import Balance, UsageRow
from jobstore.migrating import Standing, require_current
from jobstore.operating.workers import WorkerReport
from jobstore.protocol import Backlog, Beat, CachedPictures, Lane, LaneCount, Lease, Pace, Worker
from jobstore.quotas import Owner, Quota, QuotaStatus
from jobstore.retention import Ages, Purged
from jobstore.rules import requests
from jobstore.rules.keys import KeyedStore, KeyRows
from jobstore.rules.rows import Row
from jobstore.rules.store import RuledStore
from jobstore.sqlite import claims, keys, lanes, listing, quotas, reads, retention
from jobstore.sqlite.audit import list_audit
from jobstore.sqlite.database import Database
from jobstore.sqlite.keys import SqliteKeys
from jobstore.sqlite.migrate import migrate, read_standing
from jobstore.sqlite.operators import SqliteOperators
from jobstore.sqlite.reporting import SqliteReports
from jobstore.sqlite.rows import SqliteRows, doom, forget_cached
from jobstore.sqlite.webhooks import SqliteWebhooks

T = TypeVar("T")


class SqliteStore(RuledStore[SqliteRows], KeyedStore, SqliteOperators, SqliteReports, SqliteWebhooks):
    """A JobStore in a file, for one machine. ``url`` is ``sqlite:///relative/path`` or ``sqlite:////absolute/path``.

    Several processes of the machine may open it; they write one after another.
    """

    def __init__(self, url: str, *, wait_s: float = 10.0) -> None:
        """Nothing is opened before ``open``. ``wait_s`` bounds the wait for another process's write, in seconds."""
        self._database = Database(url, wait_s)

    async def open(self) -> None:
        """Open the file, or make it. Raises sqlite3.OperationalError."""
        await self._database.open()

    async def close(self) -> None:
        """Close the file."""
        await self._database.close()

    async def in_transaction(self, work: Callable[[SqliteRows], Awaitable[T]]) -> T:
        rows = SqliteRows(self._database)

        async def whole() -> T:
            result = await work(rows)
            await rows.flush()
            return result

        return await self._database.run(whole)

    async def _write(self, work: Callable[[Database], Awaitable[T]]) -> T:
        return await self._database.run(lambda: work(self._database))

    async def _read(self, work: Callable[[Database], Awaitable[T]]) -> T:
        return await self._database.run(lambda: work(self._database), writes=False)

    async def on_database(self, work: Callable[[Database], Awaitable[T]], *, writes: bool = True) -> T:
        return await self._database.run(lambda: work(self._database), writes=writes)

    async def migrate(self, *, contract: bool = False) -> tuple[str, ...]:
        return await self._write(lambda d: migrate(d, contract=contract))

    async def schema(self) -> Standing:
        return await self._read(read_standing)

    async def ping(self) -> None:
        require_current(await self.schema())

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        async def work(rows: SqliteRows) -> requests.Taken:
            for lane in new.lanes:
                await claims.add_lane(self._database, lane)
            taken = await requests.take(rows, new, pictures)
            if taken is None:
                raise LookupError("a fingerprint was taken in the middle of a transaction")
            return taken

        taken = await self.in_transaction(work)
        return replace(await self.told(taken.row), quotas=taken.quotas)

    async def told(self, row: Row) -> Job:
        return await self._read(lambda d: listing.told(SqliteRows(d), row))

    async def get(self, job_id: UUID) -> Job:
        return await self._read(lambda d: listing.get(SqliteRows(d), job_id))

    async def get_many(self, job_ids: Sequence[UUID]) -> tuple[Job, ...]:
        return await self._read(lambda d: listing.get_many(d, job_ids))

    async def events(self, job_id: UUID, after: int = 0) -> tuple[JobEvent, ...]:
        return await self._read(lambda d: reads.events(d, job_id, after))

    async def events_since(self, after: int, limit: int = 1000) -> tuple[JobEvent, ...]:
        return await self._read(lambda d: reads.events_since(d, after, limit))

    async def last_event(self) -> int:
        return await self._read(reads.last_event)

    async def find_cached(self, fingerprint: str) -> CachedPictures | None:
        return await self._read(lambda d: reads.find_cached(d, "fingerprint", fingerprint))

    async def find_cached_any(self, seedless_fingerprint: str) -> CachedPictures | None:
        return await self._read(lambda d: reads.find_cached(d, "seedless_fingerprint", seedless_fingerprint))

    async def forget_cached(self, fingerprint: str) -> None:
        await self._write(lambda d: forget_cached(d, fingerprint))

    async def claim(self, worker: Worker, lanes: Sequence[str], prefer: str | None = None) -> Lease | None:
        return await self.in_transaction(lambda rows: claims.claim(rows, worker, lanes, prefer))

    async def beat(self, worker: Worker, paces: Sequence[Pace] = (), report: WorkerReport | None = None) -> Beat:
        return await self._write(lambda d: claims.beat(d, worker, paces, report))

    async def leave(self, worker_id: UUID) -> None:
        await self._write(lambda d: claims.leave(d, worker_id))

    async def counts(self) -> tuple[LaneCount, ...]:
        return await self._read(lanes.counts)

    async def workers(self, within_s: float) -> tuple[Worker, ...]:
        return await self._read(lambda d: claims.workers(d, within_s))

    async def paces(self) -> tuple[Pace, ...]:
        return await self._read(claims.paces)

    async def lanes(self) -> tuple[Lane, ...]:
        return await self._read(lanes.lanes)

    async def arriving(self, seconds: float) -> dict[str, float]:
        return await self._read(lambda d: lanes.arriving(d, seconds))

    async def backlog(self) -> Backlog:
        return await self._read(lanes.backlog)

    async def pause_lane(self, name: str, reason: str = "", by: Actor | None = None) -> None:
        await self._write(lambda d: lanes.pause(d, name, reason, by))

    async def resume_lane(self, name: str, by: Actor | None = None) -> tuple[str, ...]:
        return await self._write(lambda d: lanes.resume(d, name, by))

    async def create_quota(self, quota: Quota, by: Actor | None = None) -> Quota:
        return await self._write(lambda d: quotas.add(d, quota, by))

    async def change_quota(self, quota_id: UUID, most: Decimal, by: Actor | None = None) -> Quota:
        return await self._write(lambda d: quotas.change(d, quota_id, most, by))

    async def delete_quota(self, quota_id: UUID, by: Actor | None = None) -> bool:
        return await self._write(lambda d: quotas.delete(d, quota_id, by))

    async def quotas(self, owners: Sequence[Owner] | None = None) -> tuple[QuotaStatus, ...]:
        return await self._read(lambda d: quotas.statuses(d, owners))

    async def balance(self, key_id: UUID, currency: str) -> Balance:
        return await self._read(lambda d: reads.balance(d, key_id, currency))

    async def usage(self, job_id: UUID) -> tuple[UsageRow, ...]:
        return await self._read(lambda d: reads.usage(d, job_id))

    async def purge(self, ages: Ages, limit: int = 1000) -> Purged:
        await self._write(lambda d: quotas.purge(d, limit))
        return await self._write(lambda d: retention.purge(d, ages, limit))

    async def doomed(self, limit: int = 1000) -> tuple[str, ...]:
        return await self._write(lambda d: retention.doomed(d, limit))

    async def doom(self, keys: Sequence[str]) -> None:
        await self._write(lambda d: doom(d, keys))

    async def bury(self, keys: Sequence[str]) -> None:
        await self._write(lambda d: retention.bury(d, keys))

    async def pointed_at(self, keys: Sequence[str]) -> frozenset[str]:
        return await self._read(lambda d: retention.pointed_at(d, keys))

    async def with_keys(self, work: Callable[[KeyRows], Awaitable[T]]) -> T:
        return await self.in_transaction(lambda rows: work(SqliteKeys(rows.database)))

    async def find_key(self, *hashes: str) -> KeyMatch | None:
        return await self._read(lambda d: keys.find_key(d, hashes))

    async def get_key(self, key_id: UUID) -> ApiKey:
        return await self._read(lambda d: keys.get_key(d, key_id))

    async def list_keys(self, where: KeyFilter = ALL_KEYS) -> tuple[ApiKey, ...]:
        return await self._read(lambda d: keys.list_keys(d, where))

    async def list_audit(self, where: AuditFilter = WHOLE_LOG) -> AuditPage:
        return await self._read(lambda d: list_audit(d, where))
