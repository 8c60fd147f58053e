"""Where a queued job stands, and when it is expected to start."""

from __future__ import annotations

from jobstore.job import JobState
from jobstore.postgres.columns import Connection, one, sole
from jobstore.rules.rows import Row

COUNTED = 10_000
"""How many jobs before one are counted; further back its place is not told."""
COUNTED_AT_SUBMIT = 100
"""The same for a job that has just come in: nobody's submit is to be slower because the queue is long."""


def devices_of(lane: str, what: str = "count(*)") -> str:
    """The query for the number, or ``what`` else, of the devices which take further jobs of a lane.

    ``lane`` is an expression.
    """
    return f"""
SELECT {what} FROM worker
WHERE seen_at >= clock_timestamp() - make_interval(secs => lease_s) AND {lane} = ANY(lanes) AND drain_asked_at IS NULL
"""


_STANDING = f"""
SELECT count(*) AS jobs_ahead, coalesce(sum(ahead.expected_s), 0) AS seconds_ahead,
    ({devices_of("%(lane)s::text")}) AS devices
FROM (
    SELECT expected_s FROM job
    WHERE state = 'queued' AND leader_id IS NULL AND lane = %(lane)s
        AND (rank_at, seq) < (%(rank_at)s::float8, %(seq)s::bigint)
    ORDER BY rank_at, seq LIMIT %(counted)s
) AS ahead
"""


async def standing(connection: Connection, row: Row, counted: int = COUNTED) -> tuple[int, float | None] | None:
    """The place in its lane's queue, from 1, and the seconds until the start; its leader's if it joined.

    None for a job that is not queued, or that stands behind more than ``counted`` others.
    """
    if row["state"] != JobState.QUEUED:
        return None
    if row["leader_id"] is not None:
        row = await one(connection, "SELECT * FROM job WHERE id = %(id)s", {"id": row["leader_id"]}) or row
    arguments = {name: row[name] for name in ("lane", "rank_at", "seq")} | {"counted": counted}
    return place_of(await sole(connection, _STANDING, arguments), counted)


def place_of(ahead: Row, counted: int) -> tuple[int, float | None] | None:
    """Place and seconds, from jobs and seconds of device time before a job, and the devices that take further ones."""
    if ahead["jobs_ahead"] == counted:
        return None
    return ahead["jobs_ahead"] + 1, ahead["seconds_ahead"] / ahead["devices"] if ahead["devices"] else None
