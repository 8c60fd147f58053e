"""What idempotency keys stand for, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from jobstore.job import NewJob
from jobstore.postgres.columns import Connection
from jobstore.rules.rows import NOBODY, Row

Place = tuple[UUID, str]
"""An idempotency key and whose it is."""

# A key that has grown too old is taken over, and so is any key by a first try. Whoever comes at the same time waits.
# All are locked here, in the order of the keys, so that two transactions with the same ones don't block each other for
# good; what is taken over is left as it stands, for a submit that is refused.
_ASK = """
INSERT INTO replay AS known (scope, key, body_sha256, job_id, expires_at)
SELECT scope, key, body_sha256, job_id, clock_timestamp() + make_interval(secs => keep_s)
FROM jsonb_to_recordset(%(replays)s) AS asked (scope uuid, key text, body_sha256 text, job_id uuid, keep_s float8)
ORDER BY scope, key
ON CONFLICT (scope, key) DO UPDATE SET job_id = known.job_id
WHERE known.expires_at <= clock_timestamp() OR EXCLUDED.job_id = ANY(%(renewing)s)
    OR (EXCLUDED.job_id, known.job_id) IN (SELECT * FROM unnest(%(heirs)s::uuid[], %(forerunners)s::uuid[]))
RETURNING scope, key, job_id
"""
_TAKE_OVER = """
UPDATE replay SET body_sha256 = asked.body_sha256, job_id = asked.job_id,
    expires_at = clock_timestamp() + make_interval(secs => keep_s)
FROM jsonb_to_recordset(%(replays)s) AS asked (scope uuid, key text, body_sha256 text, job_id uuid, keep_s float8)
WHERE (replay.scope, replay.key) = (asked.scope, asked.key)
"""
_DROP = """
DELETE FROM replay WHERE (scope, key) IN (SELECT * FROM unnest(%(scopes)s::uuid[], %(keys)s::text[]))
"""


class Asked:
    """What came of asking for the idempotency keys of jobs, all of which this transaction has locked."""

    def __init__(self, jobs: Sequence[NewJob], rows: Sequence[Row]) -> None:
        """``rows`` tell, of each key that is to be had, which job it stands for."""
        standing = {(row["scope"], row["key"]): row["job_id"] for row in rows}
        had = [new for new in jobs if new.replay is None or _place(new) in standing]
        self.fresh = {new.id for new in had}
        """The jobs that no idempotency key has made before."""
        self._taken_over = {new.id for new in had if new.replay and standing[_place(new)] != new.id}

    async def settle(self, connection: Connection, jobs: Sequence[NewJob], refused: Container[UUID]) -> None:
        """Let the keys stand for their jobs, and those of refused ones for what they stood for."""
        kept = [new for new in jobs if new.id in self._taken_over and new.id not in refused]
        if kept:
            await connection.execute(_TAKE_OVER, {"replays": _records(kept)})
        made = [_place(new) for new in jobs if new.replay and new.id in refused and new.id not in self._taken_over]
        if made:
            await connection.execute(_DROP, {"scopes": [scope for scope, _ in made], "keys": [key for _, key in made]})


async def add(connection: Connection, new: NewJob) -> bool:
    """Remember a job under its idempotency key; False where the key is taken."""
    asked = await (await ask(connection, [new]))()
    await asked.settle(connection, [new], ())
    return new.id in asked.fresh


async def ask(connection: Connection, jobs: Sequence[NewJob]) -> Callable[[], Awaitable[Asked]]:
    """Lock the jobs' idempotency keys, no two under one; what came of it is to be had later, in a pipeline."""
    replays = {new.id: new.replay for new in jobs if new.replay is not None}
    instead = {job_id: replay.instead_of for job_id, replay in replays.items() if replay.instead_of}
    arguments = {
        "replays": _records(jobs),
        "renewing": [job_id for job_id, replay in replays.items() if replay.renew],
        "heirs": list(instead),
        "forerunners": list(instead.values()),
    }
    cursor = await connection.execute(_ASK, arguments) if replays else None

    async def read() -> Asked:
        return Asked(jobs, [] if cursor is None else await cursor.fetchall())

    return read


def _records(jobs: Sequence[NewJob]) -> Jsonb:
    records = [
        msgspec.structs.asdict(new.replay) | {"scope": new.key_id or NOBODY, "job_id": new.id}
        for new in jobs
        if new.replay is not None
    ]
    return Jsonb(records, dumps=msgspec.json.encode)


def _place(new: NewJob) -> Place:
    return new.key_id or UUID(NOBODY), new.replay.key if new.replay else ""
