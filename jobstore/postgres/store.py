"""The job store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from jobstore.job import Job, JobError, JobEvent, NewJob, Picture
from jobstore.postgres import claims, clients, reads, settle, sweep
from jobstore.postgres.migrate import check_current, migrate, migrations
from jobstore.postgres.submit import submit
from jobstore.postgres.transactions import Transactions
from jobstore.protocol import (
    ApiKey,
    CachedPictures,
    Finish,
    HeldLease,
    JobFilter,
    JobPage,
    LaneCount,
    Lease,
    Settled,
    Swept,
    Worker,
)


class PostgresStore:
    """A JobStore on PostgreSQL 14 or newer. ``url`` is a libpq connection URI."""

    def __init__(self, url: str, *, max_connections: int = 10, wait_s: float = 10.0) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection, in seconds."""
        self._transactions = Transactions(url, max_connections, wait_s)

    async def open(self) -> None:
        """Connect. Raises psycopg.OperationalError, which says why, when the database can't be reached."""
        await self._transactions.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._transactions.close()

    async def migrate(self) -> tuple[str, ...]:
        return await self._transactions.run(lambda c: migrate(c, migrations()))

    async def ping(self) -> None:
        await self._transactions.run(lambda c: check_current(c, migrations()))

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        return await self._transactions.run(lambda c: submit(c, new, pictures))

    async def get(self, job_id: UUID) -> Job:
        return await self._transactions.run(lambda c: clients.get(c, job_id))

    async def list_jobs(self, where: JobFilter) -> JobPage:
        return await self._transactions.run(lambda c: clients.list_jobs(c, where))

    async def cancel(self, job_id: UUID) -> Settled:
        return await self._transactions.run(lambda c: clients.cancel(c, job_id))

    async def retry(self, job_id: UUID) -> Settled:
        return await self._transactions.run(lambda c: clients.retry(c, job_id))

    async def events(self, job_id: UUID, after: int = 0) -> tuple[JobEvent, ...]:
        return await self._transactions.run(lambda c: reads.events(c, job_id, after))

    async def events_since(self, after: int, limit: int = 1000) -> tuple[JobEvent, ...]:
        return await self._transactions.run(lambda c: reads.events_since(c, after, limit))

    async def last_event(self) -> int:
        return await self._transactions.run(lambda c: reads.last_event(c))

    async def find_cached(self, fingerprint: str) -> CachedPictures | None:
        return await self._transactions.run(lambda c: reads.find_cached(c, "fingerprint", fingerprint))

    async def find_cached_any(self, seedless_fingerprint: str) -> CachedPictures | None:
        return await self._transactions.run(
            lambda c: reads.find_cached(c, "seedless_fingerprint", seedless_fingerprint)
        )

    async def forget_cached(self, fingerprint: str) -> None:
        await self._transactions.run(lambda c: reads.forget_cached(c, fingerprint))

    async def claim(self, worker: Worker, lanes: Sequence[str], prefer: str | None = None) -> Lease | None:
        return await self._transactions.run(lambda c: claims.claim(c, worker, lanes, prefer))

    async def beat(self, worker: Worker) -> tuple[HeldLease, ...]:
        return await self._transactions.run(lambda c: claims.beat(c, worker))

    async def finish(self, token: int, result: Finish) -> Settled | None:
        return await self._transactions.run(lambda c: settle.finish(c, token, result))

    async def fail(self, token: int, error: JobError, retry_in_s: float | None = None) -> Settled | None:
        return await self._transactions.run(lambda c: settle.fail(c, token, error, retry_in_s))

    async def canceled(self, token: int, gpu_seconds: Decimal = Decimal(0)) -> Settled | None:
        return await self._transactions.run(lambda c: settle.canceled(c, token, gpu_seconds))

    async def release(self, token: int) -> Settled | None:
        return await self._transactions.run(lambda c: settle.release(c, token))

    async def leave(self, worker_id: UUID) -> None:
        await self._transactions.run(lambda c: claims.leave(c, worker_id))

    async def sweep(self, *, lease_s: float, ring_again_s: float, max_rescues: int, limit: int = 100) -> Swept:
        # A transaction a step: a step that fails takes nothing back of the others.
        parts = [
            await self._transactions.run(step)
            for step in (
                lambda c: sweep.sweep_leases(c, lease_s=lease_s, max_rescues=max_rescues, limit=limit),
                lambda c: sweep.sweep_due(c, limit=limit),
                lambda c: sweep.sweep_late(c, limit=limit),
                lambda c: sweep.sweep_unrung(c, ring_again_s=ring_again_s, limit=limit),
            )
        ]
        return sweep.together(parts)

    async def counts(self) -> tuple[LaneCount, ...]:
        return await self._transactions.run(lambda c: sweep.counts(c))

    async def workers(self, within_s: float) -> tuple[Worker, ...]:
        return await self._transactions.run(lambda c: claims.workers(c, within_s))

    async def create_key(self, name: str, secret_hash: str, hint: str, *, admin: bool) -> ApiKey:
        return await self._transactions.run(lambda c: reads.create_key(c, name, secret_hash, hint, admin))

    async def find_key(self, secret_hash: str) -> ApiKey | None:
        return await self._transactions.run(lambda c: reads.find_key(c, secret_hash))

    async def list_keys(self) -> tuple[ApiKey, ...]:
        return await self._transactions.run(lambda c: reads.list_keys(c))

    async def revoke_key(self, key_id: UUID) -> bool:
        return await self._transactions.run(lambda c: reads.revoke_key(c, key_id))
