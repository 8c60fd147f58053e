"""API keys, and writing the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from jobstore.audit import AuditNote
from jobstore.errors import KeyNotFoundError
from jobstore.keys import ApiKey, KeyFilter, KeyMatch
from jobstore.rules.keys import COLUMNS, to_key
from jobstore.rules.rows import Row
from jobstore.sqlite.database import Database, now

_KEY = f"SELECT {', '.join((*COLUMNS, 'secret_hash'))} FROM api_key"
_IN_FORCE = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"
_OVER = "expires_at IS NOT NULL AND expires_at <= :now"
_LIST = f"""
{_KEY} WHERE (:after IS NULL OR id > :after) AND (:team IS NULL OR team = :team)
  AND (:customer IS NULL OR customer = :customer) AND (NOT :only OR admin AND {_IN_FORCE})
  AND (:text IS NULL OR instr(lower(name), lower(:text)) > 0 OR instr(lower(hint), lower(:text)) > 0)
  AND (:state IS NULL
       OR :state = CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN {_OVER} THEN 'expired' ELSE 'in_force' END)
ORDER BY id LIMIT :limit
"""


class SqliteKeys:
    """A ``jobstore.rules.keys.KeyRows`` on a database that is in a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> datetime:
        return datetime.fromtimestamp(now() / 1e6, UTC)

    async def lock(self, key_id: UUID) -> list[Row]:
        query = f"{_KEY} WHERE id = :id OR admin AND {_IN_FORCE} ORDER BY id"
        return await self._database.every(query, {"id": key_id, "now": now()})

    async def add(self, columns: Mapping[str, Any]) -> Row:
        await self._database.insert("api_key", [{**columns, "created_at": now()}])
        return await self._row(columns["id"])

    async def change(self, key_id: UUID, columns: Mapping[str, Any]) -> Row:
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        await self._database.execute(f"UPDATE api_key SET {changes} WHERE id = :id", {**columns, "id": key_id})
        return await self._row(key_id)

    async def note(self, note: AuditNote) -> None:
        await write_note(self._database, note)

    async def _row(self, key_id: UUID) -> Row:
        row = await self._database.one(f"{_KEY} WHERE id = :id", {"id": key_id})
        if row is None:
            raise KeyNotFoundError(f"no key {key_id}")
        return row


async def write_note(database: Database, note: AuditNote) -> None:
    """Write an audit entry, in the transaction that the database is in."""
    row = {
        "at": now(),
        "key_id": note.by.key_id,
        "actor": note.by.name,
        "action": note.action,
        "target": note.target,
        "details": msgspec.to_builtins(note.details),
    }
    await database.insert("audit_log", [row])


async def find_key(database: Database, hashes: Sequence[str]) -> KeyMatch | None:
    """The key in force whose secret has one of these digests."""
    at = now()
    names = ", ".join(f":hash_{index}" for index in range(len(hashes)))
    query = (
        f"{_KEY} WHERE (secret_hash IN ({names}) OR previous_hash IN ({names}) AND previous_until > :now) "
        f"AND {_IN_FORCE}"
    )
    given = {f"hash_{index}": digest for index, digest in enumerate(hashes)}
    row = await database.one(query, {**given, "now": at})
    if row is None:
        return None
    ends = [row["expires_at"], None if row["secret_hash"] in hashes else row["previous_until"]]
    left = [end.timestamp() - at / 1e6 for end in ends if end is not None]
    return KeyMatch(key=to_key(row), left_s=min(left, default=None))


async def get_key(database: Database, key_id: UUID) -> ApiKey:
    """A key, revoked or not. Raises KeyNotFoundError."""
    return to_key(await SqliteKeys(database)._row(key_id))


async def list_keys(database: Database, where: KeyFilter) -> tuple[ApiKey, ...]:
    """The keys of a filter, oldest first."""
    arguments = msgspec.structs.asdict(where)
    only = arguments.pop("admins")
    found = await database.every(_LIST, {**arguments, "only": only, "now": now()})
    return tuple(to_key(row) for row in found)
