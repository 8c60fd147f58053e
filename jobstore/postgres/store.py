"""The job store on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from jobstore.job import Job, JobError, JobEvent, NewJob, Picture
from jobstore.postgres import claims, clients, reads, settle, sweep
from jobstore.postgres.migrate import check_current, migrate, migrations
from jobstore.postgres.rows import Connection, Row
from jobstore.postgres.submit import submit
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

_RACES = 10


async def _configure(connection: Connection) -> None:
    """Bound what a stuck client can hold up. A start-up option would be shorter, but PgBouncer refuses those."""
    await connection.execute("SET idle_in_transaction_session_timeout = '30s'")
    await connection.commit()


class PostgresStore:
    """A JobStore on PostgreSQL 14 or newer. ``url`` is a libpq connection URI."""

    def __init__(self, url: str, *, max_connections: int = 10, wait_s: float = 10.0) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection."""
        self._url = url
        self._wait_s = wait_s
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=max_connections,
            max_waiting=1000,
            timeout=wait_s,
            open=False,
            kwargs={
                "row_factory": dict_row,
                "prepare_threshold": None,  # a PgBouncer in between may not know prepared statements
                "connect_timeout": max(2, int(wait_s)),
                "application_name": "safelight",
            },
            configure=_configure,
            check=AsyncConnectionPool.check_connection,
        )

    async def open(self) -> None:
        """Connect. Raises psycopg.OperationalError, which says why, when the database can't be reached."""
        # The pool would only tell that it waited in vain.
        probe = await AsyncConnection.connect(self._url, connect_timeout=max(2, int(self._wait_s)))
        await probe.close()
        await self._pool.open(wait=True, timeout=self._wait_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        async with self._pool.connection() as connection:
            yield connection

    async def migrate(self) -> tuple[str, ...]:
        async with self._transaction() as connection:
            return await migrate(connection, migrations())

    async def ping(self) -> None:
        async with self._transaction() as connection:
            await check_current(connection, migrations())

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        for _ in range(_RACES - 1):
            try:
                async with self._transaction() as connection:
                    return await submit(connection, new, pictures)
            except UniqueViolation as error:
                if error.diag.constraint_name != "job_in_flight":
                    raise
        async with self._transaction() as connection:
            return await submit(connection, new, pictures)

    async def get(self, job_id: UUID) -> Job:
        async with self._transaction() as connection:
            return await clients.get(connection, job_id)

    async def list_jobs(self, where: JobFilter) -> JobPage:
        async with self._transaction() as connection:
            return await clients.list_jobs(connection, where)

    async def cancel(self, job_id: UUID) -> Settled:
        async with self._transaction() as connection:
            return await clients.cancel(connection, job_id)

    async def retry(self, job_id: UUID) -> Settled:
        async with self._transaction() as connection:
            return await clients.retry(connection, job_id)

    async def events(self, job_id: UUID, after: int = 0) -> tuple[JobEvent, ...]:
        async with self._transaction() as connection:
            return await reads.events(connection, job_id, after)

    async def events_since(self, after: int, limit: int = 1000) -> tuple[JobEvent, ...]:
        async with self._transaction() as connection:
            return await reads.events_since(connection, after, limit)

    async def last_event(self) -> int:
        async with self._transaction() as connection:
            return await reads.last_event(connection)

    async def find_cached(self, fingerprint: str) -> CachedPictures | None:
        async with self._transaction() as connection:
            return await reads.find_cached(connection, "fingerprint", fingerprint)

    async def find_cached_any(self, seedless_fingerprint: str) -> CachedPictures | None:
        async with self._transaction() as connection:
            return await reads.find_cached(connection, "seedless_fingerprint", seedless_fingerprint)

    async def forget_cached(self, fingerprint: str) -> None:
        async with self._transaction() as connection:
            await reads.forget_cached(connection, fingerprint)

    async def claim(self, worker: Worker, lanes: Sequence[str], prefer: str | None = None) -> Lease | None:
        async with self._transaction() as connection:
            return await claims.claim(connection, worker, lanes, prefer)

    async def beat(self, worker: Worker) -> tuple[HeldLease, ...]:
        async with self._transaction() as connection:
            return await claims.beat(connection, worker)

    async def finish(self, token: int, result: Finish) -> Settled | None:
        async with self._transaction() as connection:
            return await settle.finish(connection, token, result)

    async def fail(self, token: int, error: JobError, retry_in_s: float | None = None) -> Settled | None:
        async with self._transaction() as connection:
            return await settle.fail(connection, token, error, retry_in_s)

    async def canceled(self, token: int, gpu_seconds: Decimal = Decimal(0)) -> Settled | None:
        async with self._transaction() as connection:
            return await settle.canceled(connection, token, gpu_seconds)

    async def release(self, token: int) -> Settled | None:
        async with self._transaction() as connection:
            return await settle.release(connection, token)

    async def leave(self, worker_id: UUID) -> None:
        async with self._transaction() as connection:
            await connection.execute("DELETE FROM worker WHERE id = %s", [worker_id])

    async def sweep(self, *, lease_s: float, ring_again_s: float, max_rescues: int, limit: int = 100) -> Swept:
        parts = []
        steps: tuple[tuple[Any, dict[str, Any]], ...] = (
            (sweep.sweep_leases, {"lease_s": lease_s, "max_rescues": max_rescues}),
            (sweep.sweep_due, {}),
            (sweep.sweep_late, {}),
            (sweep.sweep_unrung, {"ring_again_s": ring_again_s}),
        )
        for step, arguments in steps:
            async with self._transaction() as connection:
                parts.append(await step(connection, limit=limit, **arguments))
        return sweep.together(parts)

    async def counts(self) -> tuple[LaneCount, ...]:
        async with self._transaction() as connection:
            return await sweep.counts(connection)

    async def create_key(self, name: str, secret_hash: str, hint: str, *, admin: bool) -> ApiKey:
        async with self._transaction() as connection:
            return await reads.create_key(connection, name, secret_hash, hint, admin)

    async def find_key(self, secret_hash: str) -> ApiKey | None:
        async with self._transaction() as connection:
            return await reads.find_key(connection, secret_hash)

    async def list_keys(self) -> tuple[ApiKey, ...]:
        async with self._transaction() as connection:
            return await reads.list_keys(connection)

    async def revoke_key(self, key_id: UUID) -> bool:
        async with self._transaction() as connection:
            return await reads.revoke_key(connection, key_id)
