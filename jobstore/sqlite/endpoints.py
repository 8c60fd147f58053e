"""Endpoints of webhooks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import Actor
from jobstore.ids import uuid7
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, now
from jobstore.sqlite.keys import write_note
from jobstore.webhooks.errors import TooManyWebhooksError, WebhookNotFoundError
from jobstore.webhooks.model import Endpoint, EndpointChanges, NewEndpoint
from jobstore.webhooks.notes import changed_fields, endpoint_note
from jobstore.webhooks.rows import DISABLED, GONE, to_endpoint


async def add(database: Database, new: NewEndpoint, most: int, by: Actor | None) -> Endpoint:
    """Insert, within the bound."""
    count = await database.one(
        "SELECT count(*) AS n FROM webhook_endpoint WHERE key_id IS :key_id", {"key_id": new.key_id}
    )
    if count is not None and count["n"] >= most:
        raise TooManyWebhooksError(f"there are {most} endpoints already")
    row = {**msgspec.structs.asdict(new), "id": uuid7(), "created_at": now()}
    await database.insert("webhook_endpoint", [row])
    await _note(database, by, "webhook.created", row["id"], origin=new.origin)
    return await find(database, row["id"])


async def listed(database: Database, key_id: UUID | None, all_keys: bool) -> tuple[Endpoint, ...]:
    """Those of a key, or all."""
    query = "SELECT * FROM webhook_endpoint WHERE :all OR key_id IS :key_id ORDER BY created_at, id"
    return tuple(to_endpoint(row) for row in await database.every(query, {"key_id": key_id, "all": all_keys}))


async def find(database: Database, endpoint_id: UUID) -> Endpoint:
    """One."""
    return to_endpoint(await read(database, endpoint_id))


async def read(database: Database, endpoint_id: UUID) -> Row:
    """The row of one, with its secrets."""
    row = await database.one("SELECT * FROM webhook_endpoint WHERE id = :id", {"id": endpoint_id})
    if row is None:
        raise WebhookNotFoundError("no such endpoint")
    return row


async def change(database: Database, endpoint_id: UUID, changes: EndpointChanges, by: Actor | None) -> Endpoint:
    """Set what is named; where nothing is, nothing is written down."""
    row = await read(database, endpoint_id)
    named = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not None}
    disabled = named.pop("disabled", None)
    if disabled and row["disabled_at"] is None:
        named |= {"disabled_at": now(), "reason": "on request"}
    elif disabled is False:
        named |= {"disabled_at": None, "reason": "", "failing_since": None}
    await write(database, endpoint_id, named)
    if changes.origin is not None:
        query = "UPDATE webhook_delivery SET origin = :origin WHERE endpoint_id = :id AND state = 'pending'"
        await database.execute(query, {"id": endpoint_id, "origin": changes.origin})
    if disabled:
        await give_up(database, endpoint_id, DISABLED)
    if fields := changed_fields(changes):
        await _note(database, by, "webhook.changed", endpoint_id, fields=fields)
    return await find(database, endpoint_id)


async def write(database: Database, endpoint_id: UUID, values: dict[str, Any]) -> None:
    """Set columns."""
    if values:
        sets = ", ".join(f"{name} = :{name}" for name in values)
        await database.execute(f"UPDATE webhook_endpoint SET {sets} WHERE id = :id", values | {"id": endpoint_id})


async def rotate(database: Database, endpoint_id: UUID, secret: str, keep_s: float, by: Actor | None) -> Endpoint:
    """A new secret beside the old one."""
    row = await read(database, endpoint_id)
    until = now() + round(1e6 * keep_s)
    await write(database, endpoint_id, {"secret": secret, "previous_secret": row["secret"], "previous_until": until})
    await _note(database, by, "webhook.rotated", endpoint_id)
    return await find(database, endpoint_id)


async def delete(database: Database, endpoint_id: UUID, by: Actor | None) -> None:
    """Drop it."""
    await read(database, endpoint_id)
    await database.execute("DELETE FROM webhook_endpoint WHERE id = :id", {"id": endpoint_id})
    await give_up(database, endpoint_id, GONE)
    await _note(database, by, "webhook.deleted", endpoint_id)


async def _note(database: Database, by: Actor | None, action: str, endpoint_id: UUID, **details: Any) -> None:
    if by is not None:
        await write_note(database, endpoint_note(by, action, endpoint_id, **details))


async def give_up(database: Database, endpoint_id: UUID, error: str) -> None:
    """Let what is pending for it fail."""
    query = (
        "UPDATE webhook_delivery SET state = 'failed', last_error = :why WHERE endpoint_id = :id AND state = 'pending'"
    )
    await database.execute(query, {"id": endpoint_id, "why": error})
