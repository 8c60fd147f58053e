"""API keys: making, rotating, revoking and changing them, each with its audit entry in the same transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from jobstore.audit import Actor, AuditNote
from jobstore.errors import KeyNotFoundError, KeyNotInForceError, LastAdminError
from jobstore.ids import uuid7
from jobstore.keys import PEPPERED, ApiKey, KeyChange, NewKey, Scope, scopes_of
from jobstore.rules.rows import Row

T = TypeVar("T")

COLUMNS = (
    "id", "name", "admin", "hint", "created_at", "revoked_at", "weight", "team", "customer", "scopes", "models",
    "networks", "expires_at", "previous_until",
)  # fmt: skip
"""The columns of ``api_key`` that a key is read from, beside ``secret_hash``, whose form alone is told."""


_LISTS = ("models", "networks")


class KeyRows(Protocol):
    """One transaction on the tables ``api_key`` and ``audit_log``."""

    async def now(self) -> datetime:
        """The store's clock."""

    async def lock(self, key_id: UUID) -> list[Row]:
        """The key's row, if there is one, and those of all admin keys in force, locked in an order that all keep.

        So of two transactions that take a right from two admins, the second sees what the first one left.
        """

    async def add(self, columns: Mapping[str, Any]) -> Row:
        """Insert a key."""

    async def change(self, key_id: UUID, columns: Mapping[str, Any]) -> Row:
        """Set columns of a locked key; the new row."""

    async def note(self, note: AuditNote) -> None:
        """Write an audit entry."""


class KeyedStore(ABC):
    """What any store does alike with keys. ``JobStore`` says what each method promises."""

    @abstractmethod
    async def with_keys(self, work: Callable[[KeyRows], Awaitable[T]]) -> T:
        """The result of ``work`` in a transaction of its own."""

    async def create_key(self, new: NewKey, by: Actor) -> ApiKey:
        return await self.with_keys(lambda rows: create(rows, new, by))

    async def rotate_key(self, key_id: UUID, secret_hash: str, hint: str, by: Actor, *, grace_s: float = 0) -> ApiKey:
        return await self.with_keys(lambda rows: rotate(rows, key_id, secret_hash, hint, by, grace_s))

    async def revoke_key(self, key_id: UUID, by: Actor, *, force: bool = False) -> ApiKey:
        return await self.with_keys(lambda rows: revoke(rows, key_id, by, force))

    async def change_key(self, key_id: UUID, change: KeyChange, by: Actor, *, force: bool = False) -> ApiKey:
        return await self.with_keys(lambda rows: alter(rows, key_id, change, by, force))

    async def audit(self, note: AuditNote) -> None:
        await self.with_keys(lambda rows: rows.note(note))


def to_key(row: Row) -> ApiKey:
    """The key of a row. The column ``admin`` decides: older releases know nothing of scopes."""
    fields: dict[str, Any] = {name: row[name] for name in COLUMNS}
    named = [scope for scope in row["scopes"] if scope != Scope.ADMIN]
    fields["scopes"] = scopes_of(named, admin=row["admin"])
    for name in _LISTS:
        fields[name] = None if row[name] is None else tuple(row[name])
    return ApiKey(**fields, peppered=row["secret_hash"].startswith(PEPPERED))


async def create(rows: KeyRows, new: NewKey, by: Actor) -> ApiKey:
    """Make a key."""
    columns = msgspec.structs.asdict(new) | _scope_columns(new.scopes)
    key = to_key(await rows.add({"id": uuid7(), **_listed(columns)}))
    told = {name: _plain(getattr(key, name)) for name in KeyChange.__struct_fields__}
    await rows.note(AuditNote(by=by, action="key.created", target=str(key.id), details=told))
    return key


async def rotate(rows: KeyRows, key_id: UUID, secret_hash: str, hint: str, by: Actor, grace_s: float) -> ApiKey:
    """Give a key another secret; the one before counts for ``grace_s`` seconds more.

    Raises KeyNotFoundError, KeyNotInForceError.
    """
    row, _ = await _locked(rows, key_id)
    now = await rows.now()
    _require_in_force(row, now)
    columns: dict[str, Any] = {"secret_hash": secret_hash, "hint": hint, "previous_hash": None, "previous_until": None}
    if grace_s > 0:
        columns |= {"previous_hash": row["secret_hash"], "previous_until": now + timedelta(seconds=grace_s)}
    key = to_key(await rows.change(key_id, columns))
    until = _plain(key.previous_until)
    details = {"name": key.name, "previous_until": until}
    await rows.note(AuditNote(by=by, action="key.rotated", target=str(key_id), details=details))
    return key


async def revoke(rows: KeyRows, key_id: UUID, by: Actor, force: bool) -> ApiKey:
    """Revoke a key; the first revocation's time stays. Raises KeyNotFoundError, LastAdminError."""
    row, others = await _locked(rows, key_id)
    if row["revoked_at"] is not None:
        return to_key(row)
    now = await rows.now()
    if not force:
        _require_another_admin(row, others, now)
    key = to_key(await rows.change(key_id, {"revoked_at": now}))
    details = {"name": key.name} | ({"forced": True} if force else {})
    await rows.note(AuditNote(by=by, action="key.revoked", target=str(key_id), details=details))
    return key


async def alter(rows: KeyRows, key_id: UUID, change: KeyChange, by: Actor, force: bool) -> ApiKey:
    """Change a key; where nothing differs, nothing is written.

    Raises KeyNotFoundError, KeyNotInForceError (revoked is for good), LastAdminError.
    """
    row, others = await _locked(rows, key_id)
    if row["revoked_at"] is not None:
        raise KeyNotInForceError("the key is revoked, and that is for good: make another one")
    before = to_key(row)
    wanted = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
    if "scopes" in wanted:
        wanted["scopes"] = scopes_of(wanted["scopes"])
    columns = {name: value for name, value in wanted.items() if value != getattr(before, name)}
    if not columns:
        return before
    loses = Scope.ADMIN not in columns.get("scopes", before.scopes) or columns.get("expires_at") is not None
    if before.admin and loses and not force:
        _require_another_admin(row, others, await rows.now())
    details = {name: {"from": _plain(getattr(before, name)), "to": _plain(value)} for name, value in columns.items()}
    if "scopes" in columns:
        columns |= _scope_columns(columns["scopes"])
    key = to_key(await rows.change(key_id, _listed(columns)))
    await rows.note(AuditNote(by=by, action="key.changed", target=str(key_id), details=details))
    return key


async def _locked(rows: KeyRows, key_id: UUID) -> tuple[Row, list[Row]]:
    """The key and the other admin keys. Raises KeyNotFoundError."""
    found = await rows.lock(key_id)
    own = next((row for row in found if row["id"] == key_id), None)
    if own is None:
        raise KeyNotFoundError(f"no key {key_id}")
    return own, [row for row in found if row["id"] != key_id]


def _in_force(row: Row, now: datetime) -> bool:
    return row["revoked_at"] is None and (row["expires_at"] is None or row["expires_at"] > now)


def _require_in_force(row: Row, now: datetime) -> None:
    if row["revoked_at"] is not None:
        raise KeyNotInForceError("the key is revoked, and that is for good: make another one")
    if not _in_force(row, now):
        raise KeyNotInForceError("the key has expired: change its expires_at first")


def _require_another_admin(row: Row, others: list[Row], now: datetime) -> None:
    """Raises LastAdminError where no admin key but this one is in force."""
    if row["admin"] and _in_force(row, now) and not any(other["admin"] and _in_force(other, now) for other in others):
        raise LastAdminError("it is the last admin key in force")


def _scope_columns(scopes: tuple[Scope, ...]) -> dict[str, Any]:
    """Both ways in which a key's scopes are kept, always in step."""
    own = scopes_of(scopes)
    return {"scopes": [scope.value for scope in own], "admin": Scope.ADMIN in own}


def _listed(columns: Mapping[str, Any]) -> dict[str, Any]:
    """With lists in place of tuples, as the drivers take them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
