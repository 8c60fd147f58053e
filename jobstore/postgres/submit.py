"""Accepting a job: in one statement where nothing is special about it, else by the rules."""

from __future__ import annotations

from collections.abc import Sequence

from jobstore.job import Job, JobState, NewJob, Picture
from jobstore.postgres.columns import Connection, one
from jobstore.postgres.insert import INSERT_JOB, arguments_of
from jobstore.postgres.rows import PostgresRows
from jobstore.postgres.standing import AHEAD, COUNTED_AT_SUBMIT, place_of
from jobstore.rules import requests
from jobstore.rules.quotas import owners_of
from jobstore.rules.rows import Row, to_job

# The same as ``requests.accept`` for a job that neither is answered nor finds one like it in flight.
_PLAIN = f"""
WITH added AS ({INSERT_JOB}),
told AS (
    INSERT INTO job_event (job_id, kind, data)
    SELECT id, 'state', jsonb_build_object('state', state, 'attempt', attempts, 'cache', cache) FROM added
),
booked AS (
    INSERT INTO balance AS known (key_id, currency, reserved, charged)
    SELECT key_id, currency, reserved, 0 FROM added WHERE key_id IS NOT NULL AND reserved > 0
    ON CONFLICT (key_id, currency) DO UPDATE SET reserved = known.reserved + EXCLUDED.reserved
)
SELECT this.*, ahead.* FROM added AS this CROSS JOIN LATERAL ({AHEAD}) AS ahead
"""


class LostRaceError(Exception):
    """An identical submit came first: the transaction is to be run again."""


def is_plain(new: NewJob) -> bool:
    """True for a job that neither an idempotency key nor a quota may concern."""
    return new.replay is None and not owners_of(new.key_id, new.team, new.customer)


async def plainly(connection: Connection, new: NewJob) -> Row | None:
    """The row of a job that waits by itself; None, and nothing written, where one like it is in flight."""
    joinable = new.request.cache.writes and new.request.start_at is None
    arguments = arguments_of(new, {"joinable": joinable, "reserved": new.price})
    return await one(connection, _PLAIN, arguments | {"counted": COUNTED_AT_SUBMIT})


async def by_rules(rows: PostgresRows, new: NewJob, pictures: Sequence[Picture]) -> Row:
    """The row of a job, or of the one that its idempotency key made before. Raises LostRaceError."""
    row = await requests.replayed(rows, new)
    if row is None:
        row = await requests.accept(rows, new, pictures)
    if row is None:
        raise LostRaceError
    return row


def told(row: Row) -> Job | None:
    """The job of a row that ``plainly`` gave, with its place in the queue; None for other rows."""
    if "jobs_ahead" not in row:
        return None
    queued = row["state"] == JobState.QUEUED
    return to_job(row, (), place_of(row, COUNTED_AT_SUBMIT) if queued else None)
