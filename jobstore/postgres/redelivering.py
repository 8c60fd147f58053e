"""Deliveries that are asked for anew: one, or all that a filter names."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobstore.audit import Actor
from jobstore.postgres import deliveries
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.postgres.keys import write_note
from jobstore.webhooks.errors import WebhookDisabledError
from jobstore.webhooks.model import Delivery, DeliveryFilter, DeliveryState
from jobstore.webhooks.notes import one_redelivered_note, redelivered_note
from jobstore.webhooks.rows import to_delivery

_ANEW = """
UPDATE webhook_delivery SET state = 'pending', next_at = clock_timestamp(), attempts_before = attempts,
    delivered_at = NULL
"""
_OPEN = """NOT EXISTS (
    SELECT FROM webhook_endpoint AS endpoint
    WHERE endpoint.id = webhook_delivery.endpoint_id AND endpoint.disabled_at IS NOT NULL
)"""
_ONE = f"{_ANEW} WHERE id = %(id)s AND {_OPEN} RETURNING *"
_MATCHING = f"""
SELECT seq FROM webhook_delivery
WHERE state <> 'pending' AND {_OPEN}
  AND (%(all_keys)s OR key_id IS NOT DISTINCT FROM %(key_id)s::uuid)
  AND (%(state)s::text IS NULL OR state = %(state)s) AND (%(type)s::text IS NULL OR type = %(type)s)
  AND (%(job_id)s::uuid IS NULL OR job_id = %(job_id)s)
  AND (%(endpoint_id)s::uuid IS NULL OR endpoint_id = %(endpoint_id)s)
"""
_FAILED = "  AND state = 'failed'\n"
_COUNT = "SELECT count(*) AS count FROM ({matching} LIMIT %(most)s) AS matching"
_MANY = f"""
{_ANEW} WHERE seq = ANY(ARRAY({{matching}} ORDER BY seq LIMIT %(most)s FOR UPDATE SKIP LOCKED)) RETURNING seq
"""


async def redeliver(connection: Connection, delivery_id: UUID, by: Actor | None) -> Delivery:
    """Let it be due now."""
    row = await one(connection, _ONE, {"id": delivery_id})
    if row is None:
        await deliveries.find(connection, delivery_id)
        raise WebhookDisabledError("its endpoint is disabled")
    if by is not None:
        await write_note(connection, one_redelivered_note(by, delivery_id))
    return to_delivery(row)


async def count(connection: Connection, where: DeliveryFilter, most: int) -> int:
    """How many there are, up to ``most``."""
    return int((await sole(connection, _asked(_COUNT, where), _values(where, most)))["count"])


async def redeliver_many(connection: Connection, where: DeliveryFilter, limit: int, by: Actor | None) -> int:
    """Let the oldest be due now."""
    done = len(await every(connection, _asked(_MANY, where), _values(where, limit)))
    if by is not None and done:
        await write_note(connection, redelivered_note(by, where, done))
    return done


def _asked(query: str, where: DeliveryFilter) -> str:
    """The query with its filter; the failed ones are told in so many words, for the index that holds no others."""
    return query.format(matching=_MATCHING + (_FAILED if where.state is DeliveryState.FAILED else ""))


def _values(where: DeliveryFilter, most: int) -> dict[str, Any]:
    return {
        "all_keys": where.all_keys,
        "key_id": where.key_id,
        "state": where.state,
        "type": where.type,
        "job_id": where.job_id,
        "endpoint_id": where.endpoint_id,
        "most": most,
    }
