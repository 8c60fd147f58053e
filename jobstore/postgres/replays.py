"""What idempotency keys stand for, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from psycopg import AsyncCursor
from psycopg.types.json import Jsonb

from jobstore.job import NewJob
from jobstore.postgres.columns import Connection, every
from jobstore.rules.rows import NOBODY, Row

Place = tuple[UUID, str]
"""An idempotency key and whose it is."""

# A key that has grown too old is taken over, and so is any key by a first try. Whoever comes at the same time waits.
# In the order of the keys, so that two transactions with the same ones don't block each other for good.
_ADD = """
INSERT INTO replay (scope, key, body_sha256, job_id, expires_at)
SELECT scope, key, body_sha256, job_id, clock_timestamp() + make_interval(secs => keep_s)
FROM jsonb_to_recordset(%(replays)s) AS asked (scope uuid, key text, body_sha256 text, job_id uuid, keep_s float8)
ORDER BY scope, key
ON CONFLICT (scope, key) DO UPDATE SET
    body_sha256 = EXCLUDED.body_sha256, job_id = EXCLUDED.job_id, expires_at = EXCLUDED.expires_at
WHERE replay.expires_at <= clock_timestamp() OR EXCLUDED.job_id = ANY(%(renewing)s)
    OR (EXCLUDED.job_id, replay.job_id) IN (SELECT * FROM unnest(%(heirs)s::uuid[], %(forerunners)s::uuid[]))
RETURNING job_id
"""
_EARLIER = """
SELECT replay.* FROM replay JOIN unnest(%(scopes)s::uuid[], %(keys)s::text[]) AS asked (scope, key) USING (scope, key)
ORDER BY scope, key FOR UPDATE OF replay
"""
_RESTORE = """
UPDATE replay SET body_sha256 = %(body_sha256)s, job_id = %(job_id)s, expires_at = %(expires_at)s
WHERE scope = %(scope)s AND key = %(key)s
"""
_DROP = "DELETE FROM replay WHERE scope = %(scope)s AND key = %(key)s"


async def add(connection: Connection, jobs: Sequence[NewJob]) -> set[UUID]:
    """Remember jobs under their idempotency keys, no two under one; those that no key has made before."""
    return await added(await ask(connection, jobs), jobs)


async def ask(connection: Connection, jobs: Sequence[NewJob]) -> AsyncCursor[Row] | None:
    """Begin to ``add``; ``added`` tells what came of it. None where no job has an idempotency key."""
    asked = [
        msgspec.structs.asdict(new.replay) | {"scope": new.key_id or NOBODY, "job_id": new.id}
        for new in jobs
        if new.replay is not None
    ]
    if not asked:
        return None
    renewing = [new.id for new in jobs if new.replay is not None and new.replay.renew]
    instead = {new.id: new.replay.instead_of for new in jobs if new.replay is not None and new.replay.instead_of}
    arguments = {
        "replays": Jsonb(asked, dumps=msgspec.json.encode),
        "renewing": renewing,
        "heirs": list(instead),
        "forerunners": list(instead.values()),
    }
    return await connection.execute(_ADD, arguments)


async def added(asked: AsyncCursor[Row] | None, jobs: Sequence[NewJob]) -> set[UUID]:
    """The jobs that no idempotency key has made before."""
    fresh = {new.id for new in jobs if new.replay is None}
    return fresh if asked is None else fresh | {row["job_id"] for row in await asked.fetchall()}


async def renewed(connection: Connection, jobs: Sequence[NewJob]) -> dict[Place, Row]:
    """What the idempotency keys that are to be made anew stand for: a submit that is refused leaves it so."""
    places = [_place(new) for new in jobs if new.replay and (new.replay.renew or new.replay.instead_of)]
    if not places:
        return {}
    arguments = {"scopes": [scope for scope, _ in places], "keys": [key for _, key in places]}
    return {(row["scope"], row["key"]): row for row in await every(connection, _EARLIER, arguments)}


async def undo(connection: Connection, jobs: Sequence[NewJob], earlier: Mapping[Place, Row]) -> None:
    """Let the idempotency keys of jobs that are not taken stand for what they stood for."""
    for new in jobs:
        if new.replay is not None:
            place = _place(new)
            before = earlier.get(place)
            arguments = before or {"scope": place[0], "key": place[1]}
            await connection.execute(_DROP if before is None else _RESTORE, arguments)


def _place(new: NewJob) -> Place:
    return new.key_id or UUID(NOBODY), new.replay.key if new.replay else ""
