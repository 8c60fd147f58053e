"""The outbox of webhooks: what is due, who tries it, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from jobstore.audit import Actor
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.endpoints import GIVE_UP
from jobstore.postgres.keys import write_note
from jobstore.postgres.rows import pictures_of
from jobstore.rules.cursors import decoded, encoded
from jobstore.rules.rows import NOBODY, Row, to_job
from jobstore.webhooks.errors import WebhookNotFoundError
from jobstore.webhooks.model import (
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    Due,
    Endpoint,
    EndpointRecord,
    Outstanding,
    Tried,
    UnderWay,
)
from jobstore.webhooks.notes import tested_note
from jobstore.webhooks.rows import (
    ANSWERED_GONE,
    DISABLED,
    FAILING,
    RECORDED,
    to_claim,
    to_delivery,
    to_due,
    to_endpoint,
)

_OWNER = f"coalesce(key_id, '{NOBODY}'::uuid)"
_TEST = """
INSERT INTO webhook_delivery (endpoint_id, key_id, origin, type)
SELECT id, key_id, origin, 'webhook.test' FROM webhook_endpoint WHERE id = %(id)s RETURNING *
"""
_LIST = """
SELECT * FROM webhook_delivery
WHERE (%(all_keys)s OR key_id IS NOT DISTINCT FROM %(key_id)s::uuid)
  AND (%(state)s::text IS NULL OR state = %(state)s) AND (%(job_id)s::uuid IS NULL OR job_id = %(job_id)s)
  AND (%(endpoint_id)s::uuid IS NULL OR endpoint_id = %(endpoint_id)s)
  AND (%(type)s::text IS NULL OR type = %(type)s) AND (%(before)s::bigint IS NULL OR seq < %(before)s)
ORDER BY seq DESC LIMIT %(limit)s
"""
_RECORDS = """
WITH newest AS (
    SELECT endpoint_id, state, tried_at, last_error,
        max(delivered_at) OVER (PARTITION BY endpoint_id) AS well_at
    FROM (SELECT * FROM webhook_delivery ORDER BY seq DESC LIMIT %(newest)s) AS kept WHERE endpoint_id IS NOT NULL
)
SELECT endpoint_id, max(well_at) AS well_at, count(*) FILTER (
    WHERE state <> 'delivered' AND last_error IS NOT NULL AND (well_at IS NULL OR tried_at > well_at)
) AS failures
FROM newest GROUP BY endpoint_id
"""
# Keys with something pending are found by leaps through the index, and of each only what is due is looked at. Which of
# it is taken is settled before anything is locked: what another process was quicker with is left out then.
_CLAIM = f"""
WITH RECURSIVE place AS (
    (SELECT {_OWNER} AS owner FROM webhook_delivery WHERE state = 'pending' ORDER BY {_OWNER} LIMIT 1)
    UNION ALL
    SELECT (
        SELECT {_OWNER} FROM webhook_delivery
        WHERE state = 'pending' AND {_OWNER} > place.owner ORDER BY {_OWNER} LIMIT 1
    ) FROM place WHERE place.owner IS NOT NULL
),
waiting AS (
    SELECT owner, found.*, row_number() OVER (PARTITION BY owner, origin ORDER BY next_at, seq) AS of_origin
    FROM place CROSS JOIN LATERAL (
        SELECT seq, origin, next_at FROM webhook_delivery
        WHERE state = 'pending' AND {_OWNER} = place.owner AND next_at <= statement_timestamp()
          AND origin <> ALL(%(without)s::text[])
        ORDER BY next_at LIMIT %(window)s
    ) AS found
    WHERE owner IS NOT NULL
),
turn AS (
    SELECT seq, origin, next_at, row_number() OVER (PARTITION BY owner ORDER BY next_at, seq)
        + coalesce((%(trying)s::jsonb ->> owner::text)::int, 0) AS of_key
    FROM waiting WHERE of_origin <= %(per_origin)s
),
shared AS (
    SELECT seq, next_at, of_key, row_number() OVER (PARTITION BY origin ORDER BY of_key, next_at, seq) AS of_origin
    FROM turn WHERE of_key <= %(per_key)s
),
chosen AS MATERIALIZED (
    SELECT seq FROM shared WHERE of_origin <= %(per_origin)s ORDER BY of_key, next_at, seq LIMIT %(limit)s
),
due AS MATERIALIZED (
    SELECT id FROM webhook_delivery
    WHERE seq = ANY(ARRAY(SELECT seq FROM chosen)) AND state = 'pending' AND next_at <= statement_timestamp()
    FOR UPDATE SKIP LOCKED
)
UPDATE webhook_delivery AS delivery SET
    attempts = attempts + 1, next_at = clock_timestamp() + make_interval(secs => %(lease_s)s),
    tried_at = clock_timestamp()
FROM due WHERE delivery.id = due.id RETURNING delivery.*
"""
_ENDPOINTS = """
SELECT id, url, secret, CASE WHEN previous_until > clock_timestamp() THEN previous_secret END AS previous_secret
FROM webhook_endpoint WHERE id = ANY(%(ids)s)
"""
# In the order endpoint, delivery: the one that disabling keeps too.
_LOCK = "SELECT 1 FROM webhook_endpoint WHERE id = %(endpoint_id)s FOR UPDATE"
_SETTLE = """
UPDATE webhook_delivery SET
    state = CASE WHEN %(delivered)s THEN 'delivered' WHEN %(retry_in_s)s::float8 IS NULL THEN 'failed' ELSE state END,
    delivered_at = CASE WHEN %(delivered)s THEN clock_timestamp() END,
    next_at = clock_timestamp() + make_interval(secs => coalesce(%(retry_in_s)s::float8, 0)),
    attempts_before = attempts_before + CASE WHEN %(counted)s THEN 0 ELSE 1 END,
    payload = coalesce(payload, %(payload)s), status = %(status)s, last_error = %(error)s
WHERE id = %(id)s AND attempts = %(attempt)s AND state = 'pending' RETURNING id
"""
_WELL = "UPDATE webhook_endpoint SET failing_since = NULL WHERE id = %(endpoint_id)s AND failing_since IS NOT NULL"
_FAILING = """
UPDATE webhook_endpoint SET failing_since = coalesce(failing_since, clock_timestamp()) WHERE id = %(endpoint_id)s
"""
_DISABLE = """
UPDATE webhook_endpoint SET disabled_at = clock_timestamp(), reason = %(reason)s
WHERE id = %(endpoint_id)s AND disabled_at IS NULL
  AND (%(gone)s OR failing_since < clock_timestamp() - make_interval(secs => %(disable_after_s)s)) RETURNING *
"""
_OUTSTANDING = """
SELECT count(*) AS pending,
    coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS oldest_s
FROM webhook_delivery WHERE state = 'pending'
"""


async def test(connection: Connection, endpoint_id: UUID, by: Actor | None) -> Delivery:
    """Put a test into the outbox."""
    delivery = _found(await one(connection, _TEST, {"id": endpoint_id}))
    if by is not None:
        await write_note(connection, tested_note(by, endpoint_id, delivery.id))
    return delivery


async def listed(connection: Connection, where: DeliveryFilter) -> DeliveryPage:
    """One page, newest first."""
    before = decoded(where.cursor)
    values = msgspec.structs.asdict(where) | {"before": before, "limit": where.limit + 1}
    rows = await every(connection, _LIST, values)
    more, rows = len(rows) > where.limit, rows[: where.limit]
    next_cursor = encoded(rows[-1]["seq"]) if more else None
    return DeliveryPage(deliveries=tuple(to_delivery(row) for row in rows), next_cursor=next_cursor)


async def find(connection: Connection, delivery_id: UUID) -> Delivery:
    """One."""
    return _found(await one(connection, "SELECT * FROM webhook_delivery WHERE id = %(id)s", {"id": delivery_id}))


async def body(connection: Connection, delivery_id: UUID) -> str | None:
    """The body as it was sent."""
    row = await one(connection, "SELECT payload FROM webhook_delivery WHERE id = %(id)s", {"id": delivery_id})
    if row is None:
        raise WebhookNotFoundError("no such delivery")
    return None if row["payload"] is None else str(row["payload"])


async def records(connection: Connection) -> dict[UUID, EndpointRecord]:
    """How endpoints do."""
    rows = await every(connection, _RECORDS, {"newest": RECORDED})
    return {row["endpoint_id"]: EndpointRecord(delivered_at=row["well_at"], failures=row["failures"]) for row in rows}


async def claim(connection: Connection, limit: int, lease_s: float, under_way: UnderWay) -> tuple[Due, ...]:
    """Take what is due, with all that a try needs."""
    values = to_claim(limit, under_way)
    values |= {"lease_s": lease_s, "trying": Jsonb(values["trying"])}
    rows = await every(connection, _CLAIM, values)
    if not rows:
        return ()
    ids = [row["endpoint_id"] for row in rows if row["endpoint_id"] is not None]
    endpoints = {row["id"]: row for row in await every(connection, _ENDPOINTS, {"ids": ids})}
    jobs = await _jobs(connection, [row["job_id"] for row in rows if row["job_id"] is not None])
    pictures = await pictures_of(connection, list(jobs))
    return tuple(_due(row, endpoints, jobs, pictures) for row in rows)


async def _jobs(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Row]:
    query = "SELECT * FROM any_job WHERE id = ANY(%(ids)s)"
    return {row["id"]: row for row in await every(connection, query, {"ids": list(ids)})}


def _due(row: Row, endpoints: Mapping[UUID, Row], jobs: Mapping[UUID, Row], pictures: Mapping[UUID, Any]) -> Due:
    job = jobs.get(row["job_id"])
    return to_due(
        row,
        None if job is None else job["webhook"],
        endpoints.get(row["endpoint_id"]),
        None if job is None else to_job(job, pictures.get(job["id"], ())),
    )


async def settle(connection: Connection, due: Due, tried: Tried, disable_after_s: float) -> Endpoint | None:
    """Write what came of a try."""
    values = msgspec.structs.asdict(tried) | {
        "id": due.id,
        "attempt": due.attempt,
        "endpoint_id": due.endpoint_id,
        "disable_after_s": disable_after_s,
    }
    await connection.execute(_LOCK, values)
    if await one(connection, _SETTLE, values) is None or due.endpoint_id is None or not tried.counted:
        return None
    if tried.delivered:
        await connection.execute(_WELL, values)
        return None
    await connection.execute(_FAILING, values)
    disabled = await one(connection, _DISABLE, values | {"reason": ANSWERED_GONE if tried.gone else FAILING})
    if disabled is None:
        return None
    await connection.execute(GIVE_UP, {"id": due.endpoint_id, "error": DISABLED})
    return to_endpoint(disabled)


async def outstanding(connection: Connection) -> Outstanding:
    """What is pending."""
    return Outstanding(**await sole(connection, _OUTSTANDING, {}))


def _found(row: Row | None) -> Delivery:
    if row is None:
        raise WebhookNotFoundError("no such delivery or endpoint")
    return to_delivery(row)
