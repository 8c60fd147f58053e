"""From rows of either store to structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobstore.job import Job
from jobstore.rules.rows import NOBODY, Row
from jobstore.webhooks.model import Delivery, DeliveryState, Due, Endpoint, UnderWay

GONE = "its receiver was deleted"
DISABLED = "its endpoint was disabled"
FAILING = "nothing but failures for too long"
ANSWERED_GONE = "the receiver answered 410 Gone"

PER_ORIGIN = 4
"""How many deliveries to one origin a claim takes."""

WINDOW = 256
"""How many due deliveries of a key a claim looks at."""

RECORDED = 10_000
"""How many of the newest deliveries tell how endpoints do."""

_ENDPOINT = tuple(name for name in Endpoint.__struct_fields__ if name != "events")
_DELIVERY = tuple(name for name in Delivery.__struct_fields__ if name not in ("state", "next_at", "error"))


def to_endpoint(row: Row) -> Endpoint:
    """The endpoint of a row."""
    fields: dict[str, Any] = {name: row[name] for name in _ENDPOINT}
    return Endpoint(**fields, events=tuple(row["events"]))


def to_delivery(row: Row) -> Delivery:
    """The delivery of a row."""
    state = DeliveryState(row["state"])
    fields: dict[str, Any] = {name: row[name] for name in _DELIVERY}
    next_at = row["next_at"] if state is DeliveryState.PENDING else None
    return Delivery(**fields, state=state, next_at=next_at, error=row["last_error"])


def to_claim(limit: int, under_way: UnderWay) -> dict[str, Any]:
    """The values of a claim's query. ``trying`` is a JSON object: how many tries of each key are under way."""
    return {
        "limit": limit,
        "without": list(under_way.origins),
        "trying": {str(key or NOBODY): count for key, count in under_way.keys.items()},
        "per_key": under_way.per_key,
        "per_origin": PER_ORIGIN,
        "window": WINDOW,
    }


def to_due(row: Row, hook: Mapping[str, Any] | None, endpoint: Row | None, job: Job | None) -> Due:
    """A claimed delivery. ``endpoint`` is its endpoint's row with the secrets in force, ``hook`` its job's own."""
    url, secrets = None, []
    if row["endpoint_id"] is not None and endpoint is not None:
        url, secrets = endpoint["url"], [endpoint["secret"], endpoint["previous_secret"]]
    elif row["endpoint_id"] is None and hook is not None:
        url, secrets = hook["url"], [hook.get("secret")]
    return Due(
        id=row["id"],
        endpoint_id=row["endpoint_id"],
        job_id=row["job_id"],
        key_id=row["key_id"],
        origin=row["origin"],
        type=row["type"],
        event=row["event"],
        created_at=row["created_at"],
        attempt=row["attempts"],
        tries=row["attempts"] - row["attempts_before"],
        url=url,
        secrets=tuple(secret for secret in secrets if secret),
        payload=row["payload"],
        job=job,
    )
