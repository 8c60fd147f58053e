"""API keys, and writing the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from jobstore.audit import AuditNote
from jobstore.errors import KeyNotFoundError
from jobstore.keys import ApiKey, KeyFilter, KeyMatch
from jobstore.postgres.columns import Connection, every, one, sole
from jobstore.rules.keys import COLUMNS, to_key
from jobstore.rules.rows import Row

_COLUMNS = ", ".join((*COLUMNS, "secret_hash"))
_ADMINS = "admin AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())"
# least() passes NULLs over: a limit that isn't there doesn't count.
_FIND = f"""
SELECT {_COLUMNS}, least(
    extract(epoch FROM expires_at - clock_timestamp()),
    CASE WHEN secret_hash <> ALL(%(hashes)s) THEN extract(epoch FROM previous_until - clock_timestamp()) END
)::float8 AS left_s
FROM api_key
WHERE (secret_hash = ANY(%(hashes)s) OR previous_hash = ANY(%(hashes)s) AND previous_until > clock_timestamp())
  AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
"""
_OVER = "expires_at IS NOT NULL AND expires_at <= clock_timestamp()"
_LIST = f"""
SELECT {_COLUMNS} FROM api_key
WHERE (%(after)s::uuid IS NULL OR id > %(after)s) AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(customer)s::text IS NULL OR customer = %(customer)s) AND (NOT %(admins)s OR {_ADMINS})
  AND (%(text)s::text IS NULL
       OR position(lower(%(text)s) IN lower(name)) > 0 OR position(lower(%(text)s) IN lower(hint)) > 0)
  AND (%(state)s::text IS NULL
       OR %(state)s = CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN {_OVER} THEN 'expired' ELSE 'in_force' END)
ORDER BY id LIMIT %(limit)s
"""
_LOCK = f"SELECT {_COLUMNS} FROM api_key WHERE id = %(id)s OR {_ADMINS} ORDER BY id FOR UPDATE"
_NOTE = """
INSERT INTO audit_log (key_id, actor, action, target, details)
VALUES (%(key_id)s, %(actor)s, %(action)s, %(target)s, %(details)s)
"""


class PostgresKeys:
    """A ``jobstore.rules.keys.KeyRows`` on a connection that is in a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def now(self) -> datetime:
        at: datetime = (await sole(self._connection, "SELECT clock_timestamp() AS at", {}))["at"]
        return at

    async def lock(self, key_id: UUID) -> list[Row]:
        return await every(self._connection, _LOCK, {"id": key_id})

    async def add(self, columns: Mapping[str, Any]) -> Row:
        marks = ", ".join(f"%({name})s" for name in columns)
        query = f"INSERT INTO api_key ({', '.join(columns)}) VALUES ({marks}) RETURNING {_COLUMNS}"
        return await sole(self._connection, query, columns)

    async def change(self, key_id: UUID, columns: Mapping[str, Any]) -> Row:
        changes = ", ".join(f"{name} = %({name})s" for name in columns)
        query = f"UPDATE api_key SET {changes} WHERE id = %(key_id)s RETURNING {_COLUMNS}"
        return await sole(self._connection, query, {**columns, "key_id": key_id})

    async def note(self, note: AuditNote) -> None:
        await write_note(self._connection, note)


async def write_note(connection: Connection, note: AuditNote) -> None:
    """Write an audit entry, in the transaction that the connection is in."""
    await connection.execute(
        _NOTE,
        {
            "key_id": note.by.key_id,
            "actor": note.by.name,
            "action": note.action,
            "target": note.target,
            "details": Jsonb(msgspec.to_builtins(note.details)),
        },
    )


async def find_key(connection: Connection, hashes: Sequence[str]) -> KeyMatch | None:
    """The key in force whose secret has one of these digests."""
    row = await one(connection, _FIND, {"hashes": list(hashes)})
    return None if row is None else KeyMatch(key=to_key(row), left_s=row["left_s"])


async def get_key(connection: Connection, key_id: UUID) -> ApiKey:
    """A key, revoked or not. Raises KeyNotFoundError."""
    row = await one(connection, f"SELECT {_COLUMNS} FROM api_key WHERE id = %(id)s", {"id": key_id})
    if row is None:
        raise KeyNotFoundError(f"no key {key_id}")
    return to_key(row)


async def list_keys(connection: Connection, where: KeyFilter) -> tuple[ApiKey, ...]:
    """The keys of a filter, oldest first."""
    return tuple(to_key(row) for row in await every(connection, _LIST, msgspec.structs.asdict(where)))
