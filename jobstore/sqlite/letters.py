"""Dead letters: the failed and dead jobs that a filter names."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from jobstore.job import JobState
from jobstore.operating.jobs import Counted, RedriveFilter
from jobstore.sqlite.database import Database, now

_LETTERS = """
SELECT id FROM job WHERE state IN (:failed, :dead)
AND (:lane IS NULL OR lane = :lane) AND (:model IS NULL OR model = :model) AND (:key_id IS NULL OR key_id = :key_id)
AND (:error_code IS NULL OR error ->> '$.code' = :error_code)
AND (:finished_after IS NULL OR finished_at > :finished_after)
AND (:finished_before IS NULL OR finished_at < :finished_before)
ORDER BY finished_at, seq LIMIT :limit
"""


async def count(database: Database, where: RedriveFilter, most: int) -> Counted:
    """How many failed and dead jobs the filter names, up to ``most``."""
    found = len(await letters(database, where, most + 1))
    return Counted(count=min(found, most), at_least=found > most, as_of=datetime.fromtimestamp(now() / 1e6, UTC))


async def letters(database: Database, where: RedriveFilter, limit: int) -> list[UUID]:
    """The failed and dead jobs that the filter names, those that ended first before others."""
    values = msgspec.structs.asdict(where)
    values |= {state.value: state if state in where.states else None for state in (JobState.FAILED, JobState.DEAD)}
    return [row["id"] for row in await database.every(_LETTERS, values | {"limit": limit})]
