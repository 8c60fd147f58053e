"""Finding jobs: along an index, newest first or by their ends, and never more than a bounded number looked at."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from jobstore.operating.jobs import LOOKED_AT, Counted, JobFilter
from jobstore.operating.searching import (
    NEIGHBOURS,
    is_running,
    is_spoilt,
    is_unfinished,
    named_id,
    newest_id,
    oldest_id,
)
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.rules.cursors import decoded, decoded_end, encoded, encoded_end
from jobstore.rules.rows import Row

_FIRST, _LAST = 0, 2**62
_NEWEST, _ENDED = "seq DESC", "finished_at, seq"
_HOSTED = "SELECT id FROM worker WHERE host = %(host)s"
_CONDITIONS = {
    "states": "state = ANY(%(states)s)",
    "model": "model = %(model)s",
    "lane": "lane = %(lane)s",
    "worker_id": (
        "(worker_id = %(worker_id)s OR EXISTS (SELECT FROM usage WHERE job_id = seen.id"
        " AND usage.worker_id = %(worker_id)s))"
    ),
    "host": (
        f"(worker_id IN ({_HOSTED}) OR EXISTS (SELECT FROM usage WHERE job_id = seen.id"
        f" AND usage.worker_id IN ({_HOSTED})))"
    ),
    "dimensions": "dimensions @> %(dimensions)s",
    "text": "position(lower(%(text)s) IN lower(request ->> 'prompt')) > 0",
    "error_code": "error ->> 'code' = %(error_code)s",
    "created_after": "created_at > %(created_after)s",
    "created_before": "created_at < %(created_before)s",
    "finished_after": "finished_at > %(finished_after)s",
    "finished_before": "finished_at < %(finished_before)s",
    "cancel_requested": "cancel_requested = %(cancel_requested)s",
}
_RUNNING = """id IN (
    SELECT id FROM job WHERE lease_token IS NOT NULL
    UNION ALL
    SELECT joined.id FROM job AS joined JOIN job AS leader ON leader.id = joined.leader_id
    WHERE leader.lease_token IS NOT NULL
)"""
_BEFORE = f"""
SELECT max(seq) + 1 AS seq FROM (SELECT seq FROM any_job WHERE id <= %(id)s ORDER BY id DESC LIMIT {NEIGHBOURS}) AS last
"""
_SINCE = f"""
SELECT min(seq) AS seq FROM (SELECT seq FROM any_job WHERE id >= %(id)s ORDER BY id LIMIT {NEIGHBOURS}) AS first
"""


class Search:
    """A filter as a query: ``await Search.of(…)``, and ``Search.of_letters(…)``: failed and dead jobs by their ends.

    Both raise ValueError on a cursor that no page of theirs gave.
    """

    def __init__(self, where: JobFilter, seen: str, order: str, bounds: dict[str, Any]) -> None:
        """``seen`` are the jobs that are looked at: along an index that is in ``order``, between ``bounds``."""
        self._arguments = _arguments(where) | bounds | {"looked_at": LOOKED_AT}
        self._order = order
        self._seen = f"{seen} ORDER BY {order} LIMIT %(looked_at)s"
        asked = [text for name, text in _CONDITIONS.items() if self._arguments.get(name) is not None]
        self._conditions = " AND ".join(asked) or "true"

    @classmethod
    async def of(cls, connection: Connection, where: JobFilter) -> Search:
        """The search for a filter; the times that it names are turned into a range of sequence numbers."""
        before, since = decoded(where.cursor) or _LAST, _FIRST
        if (newest := newest_id(where)) is not None:
            before = min(before, await _seq(connection, _BEFORE, newest, _FIRST))
        if (oldest := oldest_id(where)) is not None:
            since = await _seq(connection, _SINCE, oldest, _LAST)
        return cls(where, _seen(where), _NEWEST, {"before": before, "since": since})

    @classmethod
    def of_letters(cls, where: JobFilter) -> Search:
        """The search for those of a filter's jobs that a redrive may reach, those that ended first before others."""
        at, seq = decoded_end(where.cursor) or (None, None)
        return cls(where, _letters(where), _ENDED, {"after_end": at, "after_seq": seq})

    async def rows(self, connection: Connection, limit: int, columns: str = "*") -> list[Row]:
        """The first jobs, in their order."""
        found = f"FROM ({self._seen}) AS seen WHERE {self._conditions} ORDER BY {self._order} LIMIT %(limit)s"
        return await every(connection, f"SELECT {columns} {found}", self._arguments | {"limit": limit})

    async def count(self, connection: Connection, most: int) -> Counted:
        """How many there are, up to ``most``."""
        query = f"""
        SELECT count(*) AS count, clock_timestamp() AS as_of
        FROM (SELECT 1 FROM ({self._seen}) AS seen WHERE {self._conditions} LIMIT %(limit)s) AS found
        """
        found = await sole(connection, query, self._arguments | {"limit": most + 1})
        over = found["count"] > most or await self.end(connection) is not None
        return Counted(count=min(found["count"], most), at_least=over, as_of=found["as_of"])

    async def end(self, connection: Connection) -> Row | None:
        """Where the last job looked at stands; None where no more are left to look at."""
        query = f"SELECT seq, finished_at FROM ({self._seen}) AS seen OFFSET %(looked_at)s - 1 LIMIT 1"
        return await one(connection, query, self._arguments)

    def cursor(self, row: Row) -> str:
        """What goes on after that job."""
        return encoded(row["seq"]) if self._order == _NEWEST else encoded_end(row["finished_at"], row["seq"])


async def find_ids(connection: Connection, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
    """The ids of the first jobs, newest first, and the cursor of what is left to look at."""
    return await _ids(connection, await Search.of(connection, where), where, limit)


async def find_letters(connection: Connection, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
    """The same of failed and dead jobs, those that ended first before others."""
    return await _ids(connection, Search.of_letters(where), where, limit)


async def _ids(connection: Connection, search: Search, where: JobFilter, limit: int) -> tuple[list[UUID], str | None]:
    found = await search.rows(connection, limit + 1, "id, seq, finished_at")
    more, found = len(found) > limit, found[:limit]
    if more:
        return [row["id"] for row in found], search.cursor(found[-1]) if found else where.cursor
    end = await search.end(connection)
    return [row["id"] for row in found], None if end is None else search.cursor(end)


def _seen(where: JobFilter) -> str:
    """The jobs that are looked at: a range of an index that is in their order."""
    conditions = ["seq < %(before)s AND seq >= %(since)s"]
    if named_id(where) is not None:
        conditions.append("id = %(id)s")
    if where.key_id is not None:
        conditions.append("key_id = %(key_id)s")
    if is_running(where):
        conditions.append(_RUNNING)
    if is_spoilt(where):
        conditions.append("state IN ('failed', 'dead', 'canceled')")
    table = "job" if is_unfinished(where) else "any_job"
    return f"SELECT * FROM {table} WHERE {' AND '.join(conditions)}"


def _letters(where: JobFilter) -> str:
    """The failed and dead jobs that are looked at: a range of an index that is in the order of their ends."""
    conditions = ["state IN ('failed', 'dead')"]
    if where.states:
        conditions.append("state = ANY(%(states)s)")
    if named_id(where) is not None:
        conditions.append("id = %(id)s")
    if where.key_id is not None:
        conditions.append("key_id = %(key_id)s")
    ends = ("finished_after", "finished_before")
    conditions += [_CONDITIONS[name] for name in ends if getattr(where, name) is not None]
    if where.created_after is not None:  # nothing ends before it is there
        conditions.append("finished_at >= %(created_after)s")
    if where.cursor is not None:
        conditions.append("finished_at >= %(after_end)s AND (finished_at, seq) > (%(after_end)s, %(after_seq)s)")
    return f"SELECT * FROM any_job WHERE {' AND '.join(conditions)}"


def _arguments(where: JobFilter) -> dict[str, Any]:
    named = named_id(where)
    return {
        "id": named,
        "key_id": where.key_id,
        "states": list(where.states) or None,
        "model": where.model,
        "lane": where.lane,
        "worker_id": where.worker_id,
        "host": where.host,
        "dimensions": Jsonb(where.dimensions) if where.dimensions else None,
        "text": None if named else where.text,
        "error_code": where.error_code,
        "created_after": where.created_after,
        "created_before": where.created_before,
        "finished_after": where.finished_after,
        "finished_before": where.finished_before,
        "cancel_requested": where.cancel_requested,
    }


async def _seq(connection: Connection, query: str, job_id: UUID, otherwise: int) -> int:
    found = (await sole(connection, query, {"id": job_id}))["seq"]
    return otherwise if found is None else int(found)
