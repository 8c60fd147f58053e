"""Deliveries that are asked for anew: one, or all that a filter names."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobstore.audit import Actor
from jobstore.sqlite import deliveries
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note
from jobstore.webhooks.errors import WebhookDisabledError
from jobstore.webhooks.model import Delivery, DeliveryFilter, DeliveryState
from jobstore.webhooks.notes import one_redelivered_note, redelivered_note

_ANEW = """
UPDATE webhook_delivery SET state = 'pending', next_at = :now, attempts_before = attempts, delivered_at = NULL
"""
_OPEN = """NOT EXISTS (
    SELECT 1 FROM webhook_endpoint AS endpoint
    WHERE endpoint.id = webhook_delivery.endpoint_id AND endpoint.disabled_at IS NOT NULL
)"""
_ONE = f"{_ANEW} WHERE id = :id AND {_OPEN}"
_MATCHING = f"""
SELECT seq FROM webhook_delivery
WHERE state <> 'pending' AND {_OPEN}
  AND (:all_keys OR key_id IS :key_id) AND (:state IS NULL OR state = :state) AND (:type IS NULL OR type = :type)
  AND (:job_id IS NULL OR job_id = :job_id) AND (:endpoint_id IS NULL OR endpoint_id = :endpoint_id)
"""
_FAILED = "  AND state = 'failed'\n"
_COUNT = "SELECT count(*) AS count FROM ({matching} LIMIT :most)"
_MANY = f"{_ANEW} WHERE seq IN ({{matching}} ORDER BY seq LIMIT :most)"


async def redeliver(database: Database, delivery_id: UUID, by: Actor | None) -> Delivery:
    """Let it be due now."""
    done = await database.execute(_ONE, {"id": delivery_id, "now": now()})
    delivery = await deliveries.find(database, delivery_id)
    if not done:
        raise WebhookDisabledError("its endpoint is disabled")
    if by is not None:
        await write_note(database, one_redelivered_note(by, delivery_id))
    return delivery


async def count(database: Database, where: DeliveryFilter, most: int) -> int:
    """How many there are, up to ``most``."""
    row = await database.one(_asked(_COUNT, where), _values(where, most))
    return 0 if row is None else int(row["count"])


async def redeliver_many(database: Database, where: DeliveryFilter, limit: int, by: Actor | None) -> int:
    """Let the oldest be due now."""
    done = await database.execute(_asked(_MANY, where), _values(where, limit) | {"now": now()})
    if by is not None and done:
        await write_note(database, redelivered_note(by, where, done))
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
