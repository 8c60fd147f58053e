"""Accepting a job: in one statement where nothing is special about it, else by the rules."""

from __future__ import annotations

from collections.abc import Sequence

from jobstore.job import Job, NewJob, Picture
from jobstore.postgres.columns import one
from jobstore.postgres.insert import INSERT_JOB, arguments_of
from jobstore.postgres.rows import PostgresRows
from jobstore.postgres.standing import standing
from jobstore.rules import requests
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
SELECT * FROM added
"""


class LostRaceError(Exception):
    """An identical submit came first: the transaction is to be run again."""


async def submit(rows: PostgresRows, new: NewJob, pictures: Sequence[Picture]) -> Job:
    """Accept ``new``, or find the job that its idempotency key made. Raises LostRaceError."""
    row = await requests.replayed(rows, new)
    if row is None:
        row = await _accept(rows, new, pictures)
    found = await rows.pictures_of([row["id"]]) if row["id"] != new.id else {new.id: list(pictures)}
    return to_job(row, found.get(row["id"], ()), await standing(rows.connection, row))


async def _accept(rows: PostgresRows, new: NewJob, pictures: Sequence[Picture]) -> Row:
    row = None if pictures else await _plain(rows, new)
    if row is None:
        row = await requests.accept(rows, new, pictures)
    if row is None:
        raise LostRaceError
    return row


async def _plain(rows: PostgresRows, new: NewJob) -> Row | None:
    joinable = new.request.cache.writes and new.request.start_at is None
    return await one(rows.connection, _PLAIN, arguments_of(new, {"joinable": joinable, "reserved": new.price}))
