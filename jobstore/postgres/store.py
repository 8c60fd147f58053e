"""The job store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

from msgspec.structs import replace
from psycopg.errors import DivisionByZero

from jobstore.audit import WHOLE_LOG, Actor, AuditFilter, AuditPage
from jobstore.job import Job, JobEvent, NewJob, Picture
from jobstore.keys import ALL_KEYS, ApiKey, KeyFilter, KeyMatch
from jobstore.ledger import Balance, UsageRow
from jobstore.migrating import Standing, require_current
from jobstore.operating.workers import WorkerReport
from jobstore.postgres import claims, keys, lanes, listing, quotas, reads, retention, submit
from jobstore.postgres.audit import list_audit
from jobstore.postgres.columns import Connection
from jobstore.postgres.finish import finish
from jobstore.postgres.intake import Group, Intake
from jobstore.postgres.keys import PostgresKeys
from jobstore.postgres.migrate import migrate, read_standing
from jobstore.postgres.operators import PostgresOperators
from jobstore.postgres.reporting import PostgresReports
from jobstore.postgres.rows import PostgresRows, forget_cached
from jobstore.postgres.submit import Accepted, Together
from jobstore.postgres.transactions import Transactions
from jobstore.postgres.webhooks import PostgresWebhooks
from jobstore.protocol import (
    Backlog,
    Beat,
    CachedPictures,
    Finish,
    Lane,
    LaneCount,
    Lease,
    Pace,
    Settled,
    Worker,
)
from jobstore.quotas import Owner, Quota, QuotaStatus
from jobstore.retention import Ages, Purged
from jobstore.rules.keys import KeyedStore, KeyRows
from jobstore.rules.quotas import owners_of
from jobstore.rules.rows import Row
from jobstore.rules.store import RuledStore

T = TypeVar("T")

_CAREFUL = 20  # batches: where one request joined a render in flight others may
_OWNERS = 100_000  # are remembered at most
_CLAIM_TRIES = 5  # others may be quicker with what is not claimed in one statement
_AUDIT = "audit"  # whoever reads it: few do, and a search for what is not there reads much of it
_AUDIT_S = 10.0
_ADD_LANE = "INSERT INTO lane (name) VALUES (%s) ON CONFLICT (name) DO NOTHING"


class PostgresStore(RuledStore[PostgresRows], KeyedStore, PostgresOperators, PostgresReports, PostgresWebhooks):
    """A JobStore on PostgreSQL 14 or newer. ``url`` is a libpq connection URI."""

    def __init__(self, url: str, *, max_connections: int = 10, wait_s: float = 10.0) -> None:
        """Nothing is connected before ``open``. ``wait_s`` bounds the wait for a connection, in seconds."""
        self._transactions = Transactions(url, max_connections, wait_s)
        self._lanes: set[str] = set()
        self._free: set[Owner] = set()  # owners that had no quota when they were last looked at
        self._limited: set[Owner] = set()  # owners that had one
        self._since = quotas.Since()
        self._careful = 0  # batches to be written as if some of them join a render in flight
        # Not all connections: there is more to do than submits, which may wait for a lock.
        at_once = max(2, max_connections * 6 // 10)
        self._intake = Intake(self._submit_together, self._submit_alone, self._group_of, self._locks, at_once)

    async def open(self) -> None:
        """Connect. Raises psycopg.OperationalError, which says why, when the database can't be reached."""
        await self._transactions.open()

    async def close(self) -> None:
        """Write what was submitted, and close all connections."""
        await self._intake.drain()
        await self._transactions.close()

    async def in_transaction(self, work: Callable[[PostgresRows], Awaitable[T]]) -> T:
        return await self._transactions.run(work)

    async def _on(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self._transactions.plainly(work)

    async def on_connection(self, work: Callable[[Connection], Awaitable[T]], *, together: bool = False) -> T:
        return await (self._transactions.run(lambda rows: work(rows.connection)) if together else self._on(work))

    async def slowly(self, work: Callable[[Connection], Awaitable[T]], *, owner: Hashable, limit_s: float) -> T:
        return await self._transactions.slowly(work, owner, limit_s)

    async def migrate(self, *, contract: bool = False) -> tuple[str, ...]:
        return await self._transactions.run(lambda rows: migrate(rows.connection, contract=contract), limit_s=None)

    async def schema(self) -> Standing:
        return await self._on(read_standing)

    async def ping(self) -> None:
        require_current(await self.schema())

    async def submit(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        for lane in new.lanes:
            await self._know_lane(lane)
        return await (self._submit_alone(new, pictures) if pictures else self._intake.submit(new))

    async def _submit_alone(self, new: NewJob, pictures: Sequence[Picture] = ()) -> Job:
        taken = await self.in_transaction(lambda rows: submit.by_rules(rows, new, pictures))
        return replace(await self.told(taken.row), quotas=taken.quotas)

    async def _submit_together(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        found, limited = await self._written(jobs)
        owners = {owner for new in jobs for owner in owners_of(new.key_id, new.team, new.customer)}
        if len(self._free) + len(self._limited) >= _OWNERS:
            self._free.clear()
            self._limited.clear()
        self._free |= owners
        self._free -= limited
        self._limited -= owners
        self._limited |= limited
        return found

    async def _written(self, jobs: Sequence[NewJob]) -> Together:
        """At once, as if none joined a render in flight; with care where one does, and for some batches after it."""

        def write(*, alone: bool) -> Awaitable[Together]:
            return self._transactions.pipelined(lambda rows: submit.together(rows, jobs, self._since, alone=alone))

        if self._careful:
            self._careful -= 1
            return await write(alone=False)
        try:
            return await write(alone=True)
        except DivisionByZero:
            self._careful = _CAREFUL
            return await write(alone=False)

    def _group_of(self, new: NewJob) -> Group:
        """Whose quotas' locks a submit may wait for, as far as is known."""
        owners = owners_of(new.key_id, new.team, new.customer)
        return tuple(owner for owner in owners if owner not in self._free) or None

    def _locks(self, group: Group) -> bool:
        """True where somebody of the group is known to have quotas."""
        return isinstance(group, tuple) and not self._limited.isdisjoint(group)

    async def told(self, row: Row) -> Job:
        return await self._on(lambda c: listing.told(c, row))

    async def _know_lane(self, name: str) -> None:
        """Give a lane its row, once a process."""
        if name not in self._lanes:
            await self._on(lambda c: c.execute(_ADD_LANE, [name]))
            self._lanes.add(name)

    async def get(self, job_id: UUID) -> Job:
        return await self._on(lambda c: listing.get(c, job_id))

    async def get_many(self, job_ids: Sequence[UUID]) -> tuple[Job, ...]:
        return await self._on(lambda c: listing.get_many(c, job_ids))

    async def events(self, job_id: UUID, after: int = 0) -> tuple[JobEvent, ...]:
        return await self._on(lambda c: reads.events(c, job_id, after))

    async def events_since(self, after: int, limit: int = 1000) -> tuple[JobEvent, ...]:
        return await self._on(lambda c: reads.events_since(c, after, limit))

    async def last_event(self) -> int:
        return await self._on(reads.last_event)

    async def find_cached(self, fingerprint: str) -> CachedPictures | None:
        return await self._on(lambda c: reads.find_cached(c, "fingerprint", fingerprint))

    async def find_cached_any(self, seedless_fingerprint: str) -> CachedPictures | None:
        return await self._on(lambda c: reads.find_cached(c, "seedless_fingerprint", seedless_fingerprint))

    async def forget_cached(self, fingerprint: str) -> None:
        await self._on(lambda c: forget_cached(c, fingerprint))

    async def claim(self, worker: Worker, lanes: Sequence[str], prefer: str | None = None) -> Lease | None:
        for _ in range(_CLAIM_TRIES):
            row = await self._on(lambda c: claims.claim(c, worker, lanes, prefer))
            if row is None:
                return None
            if row["lease_token"] is not None:
                return claims.lease_of(row)
            if lease := await self._claim_by_rules(row["id"], worker):
                return lease
        return None

    async def _claim_by_rules(self, job_id: UUID, worker: Worker) -> Lease | None:
        return await self.in_transaction(lambda rows: claims.claim_by_rules(rows, job_id, worker))

    async def beat(self, worker: Worker, paces: Sequence[Pace] = (), report: WorkerReport | None = None) -> Beat:
        return await self._on(lambda c: claims.beat(c, worker, paces, report))

    async def finish(self, token: int, result: Finish) -> Settled | None:
        return await self._on(lambda c: finish(c, token, result)) or await super().finish(token, result)

    async def leave(self, worker_id: UUID) -> None:
        await self._on(lambda c: claims.leave(c, worker_id))

    async def counts(self) -> tuple[LaneCount, ...]:
        return await self._on(lanes.counts)

    async def workers(self, within_s: float) -> tuple[Worker, ...]:
        return await self._on(lambda c: claims.workers(c, within_s))

    async def paces(self) -> tuple[Pace, ...]:
        return await self._on(claims.paces)

    async def lanes(self) -> tuple[Lane, ...]:
        return await self._on(lanes.lanes)

    async def arriving(self, seconds: float) -> dict[str, float]:
        return await self._on(lambda c: lanes.arriving(c, seconds))

    async def backlog(self) -> Backlog:
        return await self._on(lanes.backlog)

    async def pause_lane(self, name: str, reason: str = "", by: Actor | None = None) -> None:
        await self.in_transaction(lambda rows: lanes.pause(rows.connection, name, reason, by))

    async def resume_lane(self, name: str, by: Actor | None = None) -> tuple[str, ...]:
        return await self.in_transaction(lambda rows: lanes.resume(rows.connection, name, by))

    async def create_quota(self, quota: Quota, by: Actor | None = None) -> Quota:
        self._free.discard((quota.owner_kind, quota.owner))
        return await self.in_transaction(lambda rows: quotas.add(rows.connection, quota, by))

    async def change_quota(self, quota_id: UUID, most: Decimal, by: Actor | None = None) -> Quota:
        return await self.in_transaction(lambda rows: quotas.change(rows.connection, quota_id, most, by))

    async def delete_quota(self, quota_id: UUID, by: Actor | None = None) -> bool:
        return await self.in_transaction(lambda rows: quotas.delete(rows.connection, quota_id, by))

    async def quotas(self, owners: Sequence[Owner] | None = None) -> tuple[QuotaStatus, ...]:
        return await self._on(lambda c: quotas.statuses(c, owners))

    async def balance(self, key_id: UUID, currency: str) -> Balance:
        return await self._on(lambda c: reads.balance(c, key_id, currency))

    async def usage(self, job_id: UUID) -> tuple[UsageRow, ...]:
        return await self._on(lambda c: reads.usage(c, job_id))

    async def purge(self, ages: Ages, limit: int = 1000) -> Purged:
        parts = [await self._on(lambda c: retention.archive(c, limit, ages))]
        parts += [await self._purge_kind(kind, age_s, limit) for kind, age_s in retention.ages_of(ages)]
        parts += [await self._on(lambda c: retention.purge_rest(c, limit))]
        await self._on(lambda c: quotas.purge(c, limit))
        return Purged(**{name: sum(getattr(part, name) for part in parts) for name in Purged.__struct_fields__})

    async def _purge_kind(self, kind: str, age_s: float, limit: int) -> Purged:
        return await self._on(lambda c: retention.purge_kind(c, kind, age_s, limit))

    async def doomed(self, limit: int = 1000) -> tuple[str, ...]:
        return await self._on(lambda c: retention.doomed(c, limit))

    async def doom(self, keys: Sequence[str]) -> None:
        await self._on(lambda c: retention.doom(c, keys))

    async def bury(self, keys: Sequence[str]) -> None:
        await self._on(lambda c: retention.bury(c, keys))

    async def pointed_at(self, keys: Sequence[str]) -> frozenset[str]:
        return await self._on(lambda c: retention.pointed_at(c, keys))

    async def with_keys(self, work: Callable[[KeyRows], Awaitable[T]]) -> T:
        return await self.in_transaction(lambda rows: work(PostgresKeys(rows.connection)))

    async def find_key(self, *hashes: str) -> KeyMatch | None:
        return await self._on(lambda c: keys.find_key(c, hashes))

    async def get_key(self, key_id: UUID) -> ApiKey:
        return await self._on(lambda c: keys.get_key(c, key_id))

    async def list_keys(self, where: KeyFilter = ALL_KEYS) -> tuple[ApiKey, ...]:
        return await self._on(lambda c: keys.list_keys(c, where))

    async def list_audit(self, where: AuditFilter = WHOLE_LOG) -> AuditPage:
        return await self.slowly(lambda c: list_audit(c, where), owner=_AUDIT, limit_s=_AUDIT_S)
