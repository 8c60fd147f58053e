"""The outbox of webhooks: what is due, who tries it, and what came of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import Actor
from jobstore.ids import uuid7
from jobstore.job import Job
from jobstore.rules.cursors import decoded, encoded
from jobstore.rules.rows import NOBODY, Row, to_job
from jobstore.sqlite import endpoints
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note
from jobstore.sqlite.rows import SqliteRows
from jobstore.webhooks.errors import WebhookNotFoundError
from jobstore.webhooks.model import (
    Delivery,
    DeliveryFilter,
    DeliveryPage,
    Due,
    Endpoint,
    EndpointRecord,
    EventType,
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

_LIST = """
SELECT * FROM webhook_delivery
WHERE (:all_keys OR key_id IS :key_id) AND (:state IS NULL OR state = :state)
  AND (:job_id IS NULL OR job_id = :job_id) AND (:endpoint_id IS NULL OR endpoint_id = :endpoint_id)
  AND (:type IS NULL OR type = :type) AND (:before IS NULL OR seq < :before)
ORDER BY seq DESC LIMIT :limit
"""
_RECORDS = """
WITH newest AS (
    SELECT endpoint_id, state, tried_at, last_error, max(delivered_at) OVER (PARTITION BY endpoint_id) AS well_at
    FROM (SELECT * FROM webhook_delivery ORDER BY seq DESC LIMIT :newest) WHERE endpoint_id IS NOT NULL
)
SELECT endpoint_id, max(well_at) AS delivered_at, count(*) FILTER (
    WHERE state <> 'delivered' AND last_error IS NOT NULL AND (well_at IS NULL OR tried_at > well_at)
) AS failures
FROM newest GROUP BY endpoint_id
"""
_ANY_DUE = "SELECT 1 FROM webhook_delivery WHERE state = 'pending' AND next_at <= :now LIMIT 1"
_DUE = """
WITH waiting AS (
    SELECT seq, key_id, origin, next_at,
           row_number() OVER (PARTITION BY key_id, origin ORDER BY next_at, seq) AS of_origin
    FROM webhook_delivery
    WHERE state = 'pending' AND next_at <= :now AND origin NOT IN (SELECT value FROM json_each(:without))
),
turn AS (
    SELECT seq, origin, next_at, row_number() OVER (PARTITION BY key_id ORDER BY next_at, seq)
        + coalesce((SELECT value FROM json_each(:trying) WHERE json_each.key = coalesce(key_id, :nobody)), 0) AS of_key
    FROM waiting WHERE of_origin <= :per_origin
),
shared AS (
    SELECT seq, next_at, of_key, row_number() OVER (PARTITION BY origin ORDER BY of_key, next_at, seq) AS of_origin
    FROM turn WHERE of_key <= :per_key
)
SELECT seq FROM shared WHERE of_origin <= :per_origin ORDER BY of_key, next_at, seq LIMIT :limit
"""
_CLAIM = """
UPDATE webhook_delivery SET attempts = attempts + 1, next_at = :until, tried_at = :now WHERE seq = :seq
"""


async def test(database: Database, endpoint_id: UUID, by: Actor | None) -> Delivery:
    """Put a test into the outbox."""
    endpoint = await endpoints.read(database, endpoint_id)
    row: dict[str, Any] = {
        "id": uuid7(),
        "endpoint_id": endpoint_id,
        "key_id": endpoint["key_id"],
        "origin": endpoint["origin"],
        "type": EventType.TEST,
        "next_at": now(),
        "created_at": now(),
    }
    await database.insert("webhook_delivery", [row])
    if by is not None:
        await write_note(database, tested_note(by, endpoint_id, row["id"]))
    return await find(database, row["id"])


async def listed(database: Database, where: DeliveryFilter) -> DeliveryPage:
    """One page, newest first."""
    values = msgspec.structs.asdict(where) | {"before": decoded(where.cursor), "limit": where.limit + 1}
    rows = await database.every(_LIST, values)
    more, rows = len(rows) > where.limit, rows[: where.limit]
    next_cursor = encoded(rows[-1]["seq"]) if more else None
    return DeliveryPage(deliveries=tuple(to_delivery(row) for row in rows), next_cursor=next_cursor)


async def find(database: Database, delivery_id: UUID) -> Delivery:
    """One."""
    row = await database.one("SELECT * FROM webhook_delivery WHERE id = :id", {"id": delivery_id})
    if row is None:
        raise WebhookNotFoundError("no such delivery")
    return to_delivery(row)


async def body(database: Database, delivery_id: UUID) -> str | None:
    """The body as it was sent."""
    row = await database.one("SELECT payload FROM webhook_delivery WHERE id = :id", {"id": delivery_id})
    if row is None:
        raise WebhookNotFoundError("no such delivery")
    return None if row["payload"] is None else str(row["payload"])


async def records(database: Database) -> dict[UUID, EndpointRecord]:
    """How endpoints do."""
    rows = await database.every(_RECORDS, {"newest": RECORDED})
    return {
        row["endpoint_id"]: EndpointRecord(delivered_at=row["delivered_at"], failures=row["failures"]) for row in rows
    }


async def any_due(database: Database) -> bool:
    """Whether a claim would find anything: a look now and then need not be a write."""
    return await database.one(_ANY_DUE, {"now": now()}) is not None


async def claim(rows: SqliteRows, limit: int, lease_s: float, under_way: UnderWay) -> tuple[Due, ...]:
    """Take what is due, with all that a try needs."""
    database, instant = rows.database, now()
    values = to_claim(limit, under_way)
    values |= {name: msgspec.json.encode(values[name]).decode() for name in ("without", "trying")}
    chosen = [row["seq"] for row in await database.every(_DUE, values | {"now": instant, "nobody": NOBODY})]
    for seq in chosen:
        await database.execute(_CLAIM, {"seq": seq, "now": instant, "until": instant + round(1e6 * lease_s)})
    found = [await database.one("SELECT * FROM webhook_delivery WHERE seq = :seq", {"seq": seq}) for seq in chosen]
    return tuple([await _due(rows, row) for row in found if row is not None])


async def _due(rows: SqliteRows, row: Row) -> Due:
    endpoint = await rows.database.one("SELECT * FROM webhook_endpoint WHERE id = :endpoint_id", row)
    if endpoint is not None and (endpoint["previous_until"] is None or endpoint["previous_until"] <= await rows.now()):
        endpoint["previous_secret"] = None
    job, hook = None, None
    job_row = await rows.read_job(row["job_id"]) if row["job_id"] is not None else None
    if job_row is not None:
        job, hook = await _job(rows, job_row), job_row["webhook"]
    return to_due(row, hook, endpoint, job)


async def _job(rows: SqliteRows, row: Row) -> Job:
    return to_job(row, (await rows.pictures_of([row["id"]])).get(row["id"], ()))


async def settle(database: Database, due: Due, tried: Tried, disable_after_s: float) -> Endpoint | None:
    """Write what came of a try."""
    instant = now()
    values: dict[str, Any] = {
        "state": "delivered" if tried.delivered else "failed" if tried.retry_in_s is None else "pending",
        "delivered_at": instant if tried.delivered else None,
        "next_at": instant + round(1e6 * (tried.retry_in_s or 0.0)),
        "status": tried.status,
        "why": tried.error,
        "body": tried.payload,
        "uncounted": not tried.counted,
        "id": due.id,
        "attempt": due.attempt,
    }
    query = (
        "UPDATE webhook_delivery SET state = :state, delivered_at = :delivered_at, next_at = :next_at, "
        "attempts_before = attempts_before + :uncounted, status = :status, last_error = :why, "
        "payload = coalesce(payload, :body) WHERE id = :id AND attempts = :attempt AND state = 'pending'"
    )
    if not await database.execute(query, values) or due.endpoint_id is None or not tried.counted:
        return None
    endpoint = await database.one("SELECT * FROM webhook_endpoint WHERE id = :id", {"id": due.endpoint_id})
    if endpoint is None:
        return None
    return await _note(database, endpoint, tried, round(1e6 * disable_after_s))


async def _note(database: Database, endpoint: Row, tried: Tried, disable_after: int) -> Endpoint | None:
    """Remember how an endpoint does; the endpoint where that disabled it. ``disable_after`` is in microseconds."""
    if tried.delivered:
        await endpoints.write(database, endpoint["id"], {"failing_since": None})
        return None
    values = {"id": endpoint["id"], "now": now()}
    await database.execute(
        "UPDATE webhook_endpoint SET failing_since = coalesce(failing_since, :now) WHERE id = :id", values
    )
    query = (
        "UPDATE webhook_endpoint SET disabled_at = :now, reason = :reason "
        "WHERE id = :id AND disabled_at IS NULL AND (:gone OR failing_since < :before)"
    )
    values |= {"reason": ANSWERED_GONE if tried.gone else FAILING, "gone": tried.gone, "before": now() - disable_after}
    if not await database.execute(query, values):
        return None
    await endpoints.give_up(database, endpoint["id"], DISABLED)
    return to_endpoint(await endpoints.read(database, endpoint["id"]))


async def outstanding(database: Database) -> Outstanding:
    """What is pending."""
    query = (
        "SELECT count(*) AS pending, coalesce((:now - min(created_at)) / 1e6, 0.0) AS oldest_s "
        "FROM webhook_delivery WHERE state = 'pending'"
    )
    row = await database.one(query, {"now": now()})
    return Outstanding() if row is None else Outstanding(**row)
