"""Accepting jobs: many in one transaction where nothing is special about them, else one by one by the rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from psycopg import AsyncCursor

from jobstore.errors import QuotaExceededError
from jobstore.job import CacheOutcome, Job, JobState, NewJob, Picture
from jobstore.postgres import quotas, replays
from jobstore.postgres.insert import INSERT_JOBS, arguments_of
from jobstore.postgres.listing import told
from jobstore.postgres.quotas import Since
from jobstore.postgres.rows import PostgresRows
from jobstore.postgres.standing import COUNTED_AT_SUBMIT, devices_of, place_of
from jobstore.quotas import EPOCH, Owner, QuotaStatus
from jobstore.rules import requests
from jobstore.rules.quotas import Admission, Entry, owners_of
from jobstore.rules.rows import Booking, Row

Accepted = Job | QuotaExceededError | None
"""What became of a submit; None where its idempotency key is known, and the rules must look."""

Together = tuple[list[Accepted], set[Owner]]
"""What became of submits, and which of their owners have quotas."""

Whose = tuple[UUID | None, str | None, str | None]
"""The key, team and customer of a job."""

Standing = Mapping[Whose, tuple[QuotaStatus, ...]]

_TOLD = ("seq", "state", "lane", "rank_at", "expected_s", "created_at", "start_by", "deadline_at")

PLAIN = f"""
WITH added AS ({INSERT_JOBS}),
told AS (
    INSERT INTO job_event (job_id, kind, data)
    SELECT id, 'state', jsonb_build_object('state', state, 'attempt', attempts, 'cache', cache) FROM added ORDER BY seq
),
lanes AS MATERIALIZED (
    SELECT lane, ({devices_of("asked.lane")}) AS devices FROM (SELECT DISTINCT lane FROM added) AS asked
),
-- The first of each lane's queue: what is before a job there is known, or that it is too much to be counted.
fronts AS MATERIALIZED (
    SELECT lanes.*, front.* FROM lanes LEFT JOIN LATERAL (
        SELECT rank_at, seq, expected_s FROM job
        WHERE state = 'queued' AND leader_id IS NULL AND lane = lanes.lane ORDER BY rank_at, seq LIMIT %(counted)s
    ) AS front ON true
)
SELECT this.id, {", ".join(f"this.{name}" for name in _TOLD)}, ahead.devices,
    least(ahead.jobs + this.mates, %(counted)s) AS jobs_ahead, ahead.seconds + this.mates_s AS seconds_ahead
-- A row of its own, so that it is looked at when no job is inserted, too: too few are a division by nought.
FROM (SELECT 1 / CASE WHEN count(*) < %(wanted)s THEN 0 ELSE 1 END AS enough FROM added) AS guard LEFT JOIN (
    -- Those that are inserted beside a job can't be counted in the table yet.
    SELECT added.*, count(*) FILTER (WHERE state = 'queued') OVER before AS mates,
        coalesce(sum(expected_s) FILTER (WHERE state = 'queued') OVER before, 0) AS mates_s
    FROM added
    WINDOW before AS (PARTITION BY lane ORDER BY rank_at, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS this ON guard.enough = 1 LEFT JOIN LATERAL (
    SELECT min(devices) AS devices, count(*) FILTER (WHERE earlier) AS jobs,
        coalesce(sum(expected_s) FILTER (WHERE earlier), 0) AS seconds
    FROM (SELECT *, (rank_at, seq) < (this.rank_at, this.seq) AS earlier FROM fronts WHERE lane = this.lane) AS front
) AS ahead ON true
"""
"""The same as ``requests.accept`` for jobs that are neither answered nor find one like them in flight.

Raises DivisionByZero where it inserts fewer than ``wanted``; without one inserted there is a row of nulls.
"""


class LostRaceError(Exception):
    """An identical submit came first: the transaction is to be run again."""


async def by_rules(rows: PostgresRows, new: NewJob, pictures: Sequence[Picture]) -> requests.Taken:
    """What ``requests.take`` says. Raises what that does, and LostRaceError where it has nothing to say."""
    taken = await requests.take(rows, new, pictures)
    if taken is None:
        raise LostRaceError
    return taken


async def together(
    rows: PostgresRows, jobs: Sequence[NewJob], since: Since, *, alone: bool
) -> Callable[[], Awaitable[Together]]:
    """Makes what becomes of jobs that no pictures were found for, in their order; and tells whose quotas were locked.

    Where the transaction is pipelined, in two ways to the server and back: what is known and what quotas hold; the
    jobs, the bookings and the commit. ``alone`` says that none of them will join a render in flight, as far as is
    known: then what the last way finds is read when all is committed, and it raises DivisionByZero where one would have
    joined. No two jobs may have one idempotency key. Raises LostRaceError, and whatever one of them alone would raise.
    """
    known = await replays.ask(rows.connection, jobs)
    gate = await _gate(rows, jobs, since)
    asked = await known()
    admitted, refused = _admit(gate, [new for new in jobs if new.id in asked.fresh])
    rows.book_quotas(gate.bookings)
    await asked.settle(rows.connection, jobs, refused)
    written = await _write(rows, admitted, _standing(gate, admitted), alone=alone)

    async def read() -> Together:
        found = await written()
        return [refused.get(new.id) or found.get(new.id) for new in jobs], gate.limited

    return read


async def _gate(rows: PostgresRows, jobs: Sequence[NewJob], since: Since) -> Admission:
    """The quotas of all owners of the jobs, locked."""
    owners = sorted({owner for whose in {_whose(new) for new in jobs} for owner in owners_of(*whose)})
    return Admission(*await quotas.admission(rows.connection, owners, since)) if owners else Admission((), {}, EPOCH)


def _admit(
    gate: Admission, jobs: Sequence[NewJob]
) -> tuple[list[tuple[NewJob, list[Entry]]], dict[UUID, QuotaExceededError]]:
    """Those that their quotas let in, and where they are booked; and why the others are not."""
    owners = {whose: owners_of(*whose) for whose in {_whose(new) for new in jobs}}
    admitted, refused = [], {}
    for new in jobs:
        try:
            admitted.append((new, gate.admit(new, owners[_whose(new)], waits=True)))
        except QuotaExceededError as error:
            refused[new.id] = error
    return admitted, refused


def _standing(gate: Admission, admitted: Sequence[tuple[NewJob, list[Entry]]]) -> Standing:
    """How quotas stand once all are let in: the same for all jobs of the same owners, so worked out once."""
    if not gate.limited:
        return {}
    return {whose: gate.standing(owners_of(*whose)) for whose in {_whose(new) for new, _ in admitted}}


def _whose(new: NewJob) -> Whose:
    return new.key_id, new.team, new.customer


async def _write(
    rows: PostgresRows, admitted: Sequence[tuple[NewJob, list[Entry]]], standing: Standing, *, alone: bool
) -> Callable[[], Awaitable[dict[UUID, Job]]]:
    """Writes the jobs, and makes them by id."""
    if not admitted:
        return _nothing
    arguments = arguments_of((new, _columns(new, entries)) for new, entries in admitted)
    arguments |= {"counted": COUNTED_AT_SUBMIT, "wanted": len(admitted) if alone else 0}
    asked = await rows.connection.execute(PLAIN, arguments)
    if not alone:
        jobs = await _with_joined(rows, asked, admitted, standing)
        return lambda: _made(jobs)
    rows.book([_booking(new) for new, _ in admitted if new.key_id is not None and new.price])

    async def read() -> dict[UUID, Job]:
        by_id = {row["id"]: row for row in await asked.fetchall()}
        return {new.id: _job(new, by_id[new.id], standing) for new, _ in admitted}

    return read


async def _nothing() -> dict[UUID, Job]:
    return {}


async def _made(jobs: dict[UUID, Job]) -> dict[UUID, Job]:
    return jobs


async def _with_joined(
    rows: PostgresRows, asked: AsyncCursor[Row], admitted: Sequence[tuple[NewJob, list[Entry]]], standing: Standing
) -> dict[UUID, Job]:
    """Those that wait by themselves, which are written, and, one by one, those that join a render in flight."""
    by_id = {row["id"]: row for row in await asked.fetchall()}
    jobs = {new.id: _job(new, by_id[new.id], standing) for new, _ in admitted if new.id in by_id}
    rows.book([_booking(new) for new, _ in admitted if new.id in by_id and new.key_id is not None and new.price])
    for new, entries in sorted(admitted, key=lambda pair: pair[0].fingerprint):
        if new.id not in by_id:
            row = await requests.accept_admitted(rows, new, (), entries)
            if row is None:
                raise LostRaceError
            jobs[new.id] = replace(await told(rows.connection, row), quotas=standing.get(_whose(new), ()))
    return jobs


def _columns(new: NewJob, entries: Sequence[Entry]) -> Mapping[str, Any]:
    joinable = new.request.cache.writes and new.request.start_at is None
    return {"joinable": joinable, "reserved": new.price, "quotas": [entry.kept for entry in entries]}


def _booking(new: NewJob) -> Booking:
    if new.key_id is None:
        raise ValueError("a job without an API key has no balance")
    return Booking(new.key_id, new.currency, new.price, Decimal(0))


def _job(new: NewJob, row: Row, standing: Standing) -> Job:
    """The job of a submit, with what the store made of it: no need to read back what was written a moment ago."""
    state = JobState(row["state"])
    position, eta_s = (place_of(row, COUNTED_AT_SUBMIT) if state is JobState.QUEUED else None) or (None, None)
    return Job(
        id=new.id,
        state=state,
        request=new.request,
        lane=new.lane,
        batch_key=new.batch_key,
        fingerprint=new.fingerprint,
        seedless_fingerprint=new.seedless_fingerprint,
        cache=CacheOutcome.MISS,
        key_id=new.key_id,
        team=new.team,
        customer=new.customer,
        dimensions=new.dimensions,
        currency=new.currency,
        reserved=new.price,
        max_attempts=new.max_attempts,
        warnings=tuple(new.warnings),
        queue_position=position,
        eta_s=eta_s,
        expected_s=row["expected_s"],
        created_at=row["created_at"],
        start_at=new.request.start_at,
        start_by=row["start_by"],
        deadline_at=row["deadline_at"],
        fallbacks=new.fallbacks,
        traceparent=new.traceparent,
        webhook=new.webhook,
        quotas=standing.get(_whose(new), ()),
    )
