"""Endpoints of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import Actor
from jobstore.ids import uuid7
from jobstore.postgres.columns import Connection, every, one
from jobstore.postgres.keys import write_note
from jobstore.rules.rows import NOBODY
from jobstore.webhooks.errors import TooManyWebhooksError, WebhookNotFoundError
from jobstore.webhooks.model import Endpoint, EndpointChanges, NewEndpoint
from jobstore.webhooks.notes import changed_fields, endpoint_note
from jobstore.webhooks.rows import DISABLED, GONE, to_endpoint

_OF_KEY = f"coalesce(key_id, '{NOBODY}'::uuid) = coalesce(%(key_id)s::uuid, '{NOBODY}'::uuid)"
# Whoever adds one for the same key waits, so that two can't both be the last.
_TURN = f"SELECT pg_advisory_xact_lock(hashtextextended(coalesce(%(key_id)s::uuid, '{NOBODY}'::uuid)::text, 1164))"
_ADD = f"""
INSERT INTO webhook_endpoint (id, key_id, url, origin, description, events, secret)
SELECT %(id)s, %(key_id)s, %(url)s, %(origin)s, %(description)s, %(events)s, %(secret)s
WHERE (SELECT count(*) FROM webhook_endpoint WHERE {_OF_KEY}) < %(most)s
RETURNING *
"""
_CHANGE = """
UPDATE webhook_endpoint SET
    url = coalesce(%(url)s, url), origin = coalesce(%(origin)s, origin), events = coalesce(%(events)s::text[], events),
    description = coalesce(%(description)s, description),
    disabled_at = CASE WHEN %(disabled)s THEN coalesce(disabled_at, clock_timestamp())
                       WHEN NOT %(disabled)s THEN NULL ELSE disabled_at END,
    reason = CASE WHEN %(disabled)s AND disabled_at IS NULL THEN 'on request'
                  WHEN NOT %(disabled)s THEN '' ELSE reason END,
    failing_since = CASE WHEN NOT %(disabled)s THEN NULL ELSE failing_since END
WHERE id = %(id)s RETURNING *
"""
_MOVE = "UPDATE webhook_delivery SET origin = %(origin)s WHERE endpoint_id = %(id)s AND state = 'pending'"
_ROTATE = """
UPDATE webhook_endpoint SET secret = %(secret)s, previous_secret = secret,
    previous_until = clock_timestamp() + make_interval(secs => %(keep_s)s)
WHERE id = %(id)s RETURNING *
"""
GIVE_UP = """
UPDATE webhook_delivery SET state = 'failed', last_error = %(error)s WHERE endpoint_id = %(id)s AND state = 'pending'
"""


async def add(connection: Connection, new: NewEndpoint, most: int, by: Actor | None) -> Endpoint:
    """Insert, within the bound."""
    values = _values(new) | {"id": uuid7(), "most": most}
    await connection.execute(_TURN, values)
    row = await one(connection, _ADD, values)
    if row is None:
        raise TooManyWebhooksError(f"there are {most} endpoints already")
    await _note(connection, by, "webhook.created", row["id"], origin=new.origin)
    return to_endpoint(row)


async def listed(connection: Connection, key_id: UUID | None, all_keys: bool) -> tuple[Endpoint, ...]:
    """Those of a key, or all."""
    query = f"SELECT * FROM webhook_endpoint WHERE %(all)s OR {_OF_KEY} ORDER BY created_at, id"
    return tuple(to_endpoint(row) for row in await every(connection, query, {"key_id": key_id, "all": all_keys}))


async def find(connection: Connection, endpoint_id: UUID) -> Endpoint:
    """One."""
    return _found(await one(connection, "SELECT * FROM webhook_endpoint WHERE id = %(id)s", {"id": endpoint_id}))


async def change(connection: Connection, endpoint_id: UUID, changes: EndpointChanges, by: Actor | None) -> Endpoint:
    """Set what is named; where nothing is, nothing is written down."""
    values = _values(changes) | {"id": endpoint_id, "error": DISABLED}
    changed = _found(await one(connection, _CHANGE, values))
    if changes.origin is not None:
        await connection.execute(_MOVE, values)
    if changes.disabled:
        await connection.execute(GIVE_UP, values)
    if fields := changed_fields(changes):
        await _note(connection, by, "webhook.changed", endpoint_id, fields=fields)
    return changed


async def rotate(connection: Connection, endpoint_id: UUID, secret: str, keep_s: float, by: Actor | None) -> Endpoint:
    """A new secret beside the old one."""
    rotated = _found(await one(connection, _ROTATE, {"id": endpoint_id, "secret": secret, "keep_s": keep_s}))
    await _note(connection, by, "webhook.rotated", endpoint_id)
    return rotated


async def delete(connection: Connection, endpoint_id: UUID, by: Actor | None) -> None:
    """Drop it."""
    values = {"id": endpoint_id, "error": GONE}
    _found(await one(connection, "DELETE FROM webhook_endpoint WHERE id = %(id)s RETURNING *", values))
    await connection.execute(GIVE_UP, values)
    await _note(connection, by, "webhook.deleted", endpoint_id)


async def _note(connection: Connection, by: Actor | None, action: str, endpoint_id: UUID, **details: Any) -> None:
    if by is not None:
        await write_note(connection, endpoint_note(by, action, endpoint_id, **details))


def _values(struct: msgspec.Struct) -> dict[str, Any]:
    values = msgspec.structs.asdict(struct)
    events = values["events"]
    return values | {"events": None if events is None else [str(event) for event in events]}


def _found(row: Mapping[str, Any] | None) -> Endpoint:
    if row is None:
        raise WebhookNotFoundError("no such endpoint")
    return to_endpoint(dict(row))
