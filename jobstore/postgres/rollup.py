"""Summing up the ledger by whole hours; ``migrations/0008_rollup.sql`` says when such sums count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

from jobstore.postgres.columns import Connection, every, sole

_ENOUGH = 200_000  # rows of the ledger at once
# A row that comes late holds its hour until its transaction ends, and this holds hours too: so it waits a moment only.
_HURRY = "SELECT set_config('lock_timeout', '200', true)"
_LOCK = "SELECT pg_try_advisory_xact_lock(x'5AFE1166'::bigint) AS ours"
# Hours before this are over for good, but for rows that tell by the trigger that they came late: whoever may have
# written to them without it, and is not done, has begun before. What is not known of others counts as the worst.
_UNTIL = """
SELECT date_trunc('hour', least(statement_timestamp(), min(began)) - interval '1 minute', 'UTC') AS until
FROM (
    SELECT coalesce(activity.xact_start, 'epoch') AS began
    FROM pg_locks AS held LEFT JOIN pg_stat_activity AS activity USING (pid)
    WHERE locktype = 'relation' AND relation = 'usage'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      AND pid IS DISTINCT FROM pg_backend_pid()
) AS writer
"""
# Ten years at most, lest a single row with a wrong clock bring in millions of hours; older rows are read themselves.
_KNOW = """
INSERT INTO usage_hour (hour)
SELECT hour FROM generate_series(
    (
        SELECT CASE WHEN min(at) < %(until)s
            THEN date_trunc('hour', greatest(min(at), %(until)s - interval '10 years'), 'UTC')
        END FROM usage
    ),
    %(until)s - interval '1 hour', interval '1 hour'
) AS hour
WHERE NOT EXISTS (SELECT FROM usage_hour AS known WHERE known.hour = hour.hour)
ORDER BY hour LIMIT %(limit)s
ON CONFLICT (hour) DO NOTHING
"""
_DUE = """
WITH due AS MATERIALIZED (
    SELECT hour FROM usage_hour WHERE NOT summed AND hour < %(until)s
    ORDER BY hour LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
SELECT hour, (SELECT count(*) FROM usage WHERE at >= hour AND at < hour + interval '1 hour') AS attempts
FROM due ORDER BY hour
"""
_SUMS = """
count(*) AS attempts, sum(pictures) AS pictures, sum(gpu_seconds) AS gpu_seconds, sum(charged) AS charged,
coalesce(sum(price) FILTER (WHERE outcome = 'succeeded' AND cache <> 'miss'), 0) AS saved
"""
_SUMMED = "attempts, pictures, gpu_seconds, charged, saved"
_JOBS = "count(*) FILTER (WHERE outcome = 'succeeded') AS jobs"
TOOK = "(extract(epoch FROM at - wanted_at) * 1000000)::bigint"
"""How long a row's job took, in microseconds."""
_TOOK = f"array_agg({TOOK}) FILTER (WHERE wanted_at IS NOT NULL) AS took"
_ROWS = """
FROM usage {source}
WHERE at >= %(first)s AND at < %(last)s + interval '1 hour' AND date_trunc('hour', at, 'UTC') = ANY(%(hours)s)
"""
_HOUR = "date_trunc('hour', at, 'UTC') AS hour"
_TABLES = ("usage_by_owner", "usage_by_device", "usage_by_dimension")


def _adding(table: str, columns: str, names: str, sums: str, source: str = "") -> str:
    places = ", ".join(str(place) for place in range(1, columns.count(",") + 3))
    return f"""
        INSERT INTO {table} (hour, {columns}, {names})
        SELECT {_HOUR}, {columns}, {sums} {_ROWS.format(source=source)} GROUP BY {places} ORDER BY 1
    """


_ADD = (
    _adding(
        "usage_by_owner", "key_id, team, customer, model, lane, currency",
        f"jobs, {_SUMMED}, took", f"{_JOBS}, {_SUMS}, {_TOOK}",
    ),
    _adding(
        "usage_by_device", "model, lane, device, cache, outcome, currency",
        f"{_SUMMED}, rendered, batched_seconds, row_seconds, took",
        f"""{_SUMS}, coalesce(sum(pictures) FILTER (WHERE gpu_seconds > 0), 0),
        sum(gpu_seconds) FILTER (WHERE batch_rows IS NOT NULL), sum(gpu_seconds * batch_rows::numeric), {_TOOK}""",
    ),
    _adding(
        "usage_by_dimension", "name, value, model, currency",
        f"jobs, {_SUMMED}, took", f"{_JOBS}, {_SUMS}, {_TOOK}",
        "CROSS JOIN jsonb_each_text(dimensions) AS entry (name, value)",
    ),
)  # fmt: skip


async def roll_up(connection: Connection, limit: int) -> int:
    """Sum up hours that are over, the oldest first; how many, 0 where none is left or another process is at it.

    So many at most, and fewer where they have many rows. The connection is in a transaction. Raises
    psycopg.errors.LockNotAvailable where somebody changes rows of such an hour, and takes time.
    """
    await connection.execute(_HURRY)
    if not (await sole(connection, _LOCK, {}))["ours"]:
        return 0
    known = {"until": (await sole(connection, _UNTIL, {}))["until"], "limit": limit}
    await connection.execute(_KNOW, known)
    due = await every(connection, _DUE, known)
    totals = accumulate(row["attempts"] for row in due)
    hours = [
        row["hour"] for place, (row, total) in enumerate(zip(due, totals, strict=True)) if not place or total <= _ENOUGH
    ]
    if hours:
        await _sum_up(connection, hours)
    return len(hours)


async def _sum_up(connection: Connection, hours: Sequence[datetime]) -> None:
    """The hours, which are locked: nobody changes their rows meanwhile, and each statement sees what was changed."""
    arguments = {"hours": list(hours), "first": hours[0], "last": hours[-1]}
    for table in _TABLES:
        await connection.execute(f"DELETE FROM {table} WHERE hour = ANY(%(hours)s)", arguments)
    for query in _ADD:
        await connection.execute(query, arguments)
    await connection.execute("UPDATE usage_hour SET summed = true WHERE hour = ANY(%(hours)s)", arguments)


async def forget_sums(connection: Connection) -> None:
    """Let reports read the ledger alone, until it is summed up anew."""
    await connection.execute("UPDATE usage_hour SET summed = false WHERE summed")
