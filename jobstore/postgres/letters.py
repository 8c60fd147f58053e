"""Dead letters: the failed and dead jobs that a filter names."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.operating.jobs import Counted, RedriveFilter
from jobstore.postgres.columns import Connection, every, sole

_LETTERS = """
SELECT id FROM any_job
WHERE state IN ('failed', 'dead') AND state = ANY(%(states)s)
  AND (%(lane)s::text IS NULL OR lane = %(lane)s) AND (%(model)s::text IS NULL OR model = %(model)s)
  AND (%(key_id)s::uuid IS NULL OR key_id = %(key_id)s)
  AND (%(error_code)s::text IS NULL OR error ->> 'code' = %(error_code)s)
  AND (%(finished_after)s::timestamptz IS NULL OR finished_at > %(finished_after)s)
  AND (%(finished_before)s::timestamptz IS NULL OR finished_at < %(finished_before)s)
ORDER BY finished_at, seq LIMIT %(limit)s
"""


_COUNT = f"SELECT count(*) AS count, clock_timestamp() AS as_of FROM ({_LETTERS}) AS found"


async def count(connection: Connection, where: RedriveFilter, most: int) -> Counted:
    """How many failed and dead jobs the filter names, up to ``most``."""
    found = await sole(connection, _COUNT, _arguments(where, most + 1))
    return Counted(count=min(found["count"], most), at_least=found["count"] > most, as_of=found["as_of"])


async def letters(connection: Connection, where: RedriveFilter, limit: int) -> list[UUID]:
    """The failed and dead jobs that the filter names, those that ended first before others."""
    return [row["id"] for row in await every(connection, _LETTERS, _arguments(where, limit))]


def _arguments(where: RedriveFilter, limit: int) -> dict[str, Any]:
    return msgspec.structs.asdict(where) | {"states": list(where.states), "limit": limit}
