"""API keys: what one may do, and its secret, which is made here, shown once and kept as a digest."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from jobstore.audit import Actor
from jobstore.key_networks import within

PREFIX = "sl_"
PEPPERED = "hmac-sha256:"
"""What the digest of a secret begins with that a pepper went into."""

OWNER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""The name of a team or a customer."""
MAX_GRACE_S = 90 * 86_400
MIN_WEIGHT = 0.01
MAX_WEIGHT = 1000.0


KeyState = Literal["in_force", "expired", "revoked"]
"""By the store's clock; one that is revoked is that first."""


class Scope(StrEnum):
    """What a key may do: hand in and cancel jobs, look at them, look at the admin pages, or everything (its own and
    everybody's)."""

    SUBMIT = "submit"
    READ = "read"
    OBSERVE = "observe"
    ADMIN = "admin"


def scopes_of(named: Iterable[str], *, admin: bool = False) -> tuple[Scope, ...]:
    """The scopes in their one order; ``admin`` includes the others. Raises ValueError on a stranger."""
    given = {Scope(name) for name in named}
    return tuple(Scope) if admin or Scope.ADMIN in given else tuple(scope for scope in Scope if scope in given)


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key's public half: the secret itself is never stored, only its hash.

    ``scopes`` is all it may do, ``admin`` that the scope of that name is among them. ``models`` are those it may use,
    by their own names; None for all. ``networks`` are those it may be used from; None for anywhere.
    ``previous_until`` is how long the secret from before the last rotation counts beside the new one. ``peppered`` says
    that the server's pepper went into the digest of its secret.
    """

    id: UUID
    name: str
    admin: bool
    hint: str
    created_at: datetime
    revoked_at: datetime | None = None
    weight: float = 1.0
    team: str | None = None
    customer: str | None = None
    scopes: tuple[Scope, ...] = (Scope.SUBMIT, Scope.READ)
    models: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    previous_until: datetime | None = None
    peppered: bool = False

    def allows(self, scope: Scope) -> bool:
        """True where the key has the scope; an admin's has all."""
        return self.admin or scope in self.scopes

    def may_use(self, model: str) -> bool:
        """True where the key may use the model of that name (its own, no alias)."""
        return self.models is None or model in self.models

    def counts_from(self, address: str | None) -> bool:
        """True where the key may be used from an address; None is one that isn't known."""
        return self.networks is None or within(self.networks, address)


class KeyMatch(Struct, frozen=True, kw_only=True):
    """A key in force that a secret belongs to. ``left_s`` is how many seconds that secret counts from now on; None
    where no end is known."""

    key: ApiKey
    left_s: float | None = None


class NewKey(Struct, frozen=True, kw_only=True):
    """A key to be made. ``secret_hash`` is what a ``Digester`` makes of its secret, ``hint`` the secret's start.

    ``models`` are those it may use, by their own names; None for all. ``networks`` are those it may be used from.
    """

    name: str
    secret_hash: str
    hint: str
    scopes: tuple[Scope, ...] = (Scope.SUBMIT, Scope.READ)
    weight: float = 1.0
    team: str | None = None
    customer: str | None = None
    models: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    expires_at: datetime | None = None


class KeyChange(Struct, frozen=True, kw_only=True):
    """What changes in a key; what is UNSET stays."""

    name: str | UnsetType = UNSET
    scopes: tuple[Scope, ...] | UnsetType = UNSET
    weight: float | UnsetType = UNSET
    team: str | UnsetType | None = UNSET
    customer: str | UnsetType | None = UNSET
    models: tuple[str, ...] | UnsetType | None = UNSET
    networks: tuple[str, ...] | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET


class KeyFilter(Struct, frozen=True, kw_only=True):
    """Which keys to list, oldest first: those made after the key ``after``, of a team, of a customer.

    ``admins`` lists admin keys in force alone. ``text`` is a part of the name or the hint, in small letters or large
    ones.
    """

    after: UUID | None = None
    limit: int = 1000
    team: str | None = None
    customer: str | None = None
    admins: bool = False
    text: str | None = None
    state: KeyState | None = None


ALL_KEYS = KeyFilter()


class KeyStore(Protocol):
    """What every job store does about API keys. Each change and its audit entry are one transaction."""

    async def create_key(self, new: NewKey, by: Actor) -> ApiKey:
        """Keep a new key by the digest of its secret. ``weight`` is its share of a lane beside keys of weight 1."""

    async def find_key(self, *hashes: str) -> KeyMatch | None:
        """The key whose secret has one of these digests: now, or before its last rotation while its grace lasts.

        None for a key that is revoked or has expired, as for a digest that nobody knows.
        """

    async def get_key(self, key_id: UUID) -> ApiKey:
        """The key, in force or not. Raises KeyNotFoundError."""

    async def list_keys(self, where: KeyFilter = ALL_KEYS) -> tuple[ApiKey, ...]:
        """The keys of a filter, oldest first, those that count no more too."""

    async def rotate_key(self, key_id: UUID, secret_hash: str, hint: str, by: Actor, *, grace_s: float = 0) -> ApiKey:
        """Give the key another secret. The one before counts for ``grace_s`` seconds more, any earlier one no more.

        Raises KeyNotFoundError, KeyNotInForceError.
        """

    async def revoke_key(self, key_id: UUID, by: Actor, *, force: bool = False) -> ApiKey:
        """Revoke, at once and for good, with the secret before a rotation. Asking again changes nothing.

        Raises KeyNotFoundError; LastAdminError, without ``force``, where no admin key would be left in force.
        """

    async def change_key(self, key_id: UUID, change: KeyChange, by: Actor, *, force: bool = False) -> ApiKey:
        """Change what the key may do. Raises KeyNotFoundError, KeyNotInForceError, LastAdminError as above."""


def make_secret() -> str:
    """A fresh secret: 256 random bits behind a prefix that scanners for leaked keys can look for."""
    return PREFIX + secrets.token_urlsafe(32)


def check_grace(seconds: float) -> None:
    """Raise ValueError unless an old secret may count for so many seconds beside the new one."""
    if not 0 <= seconds <= MAX_GRACE_S:
        raise ValueError(f"must be from 0 to {MAX_GRACE_S} seconds (90 days)")


def hash_secret(secret: str) -> str:
    """SHA-256, hex. Fast on purpose: 256 random bits can't be guessed, salted or not."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint_of(secret: str) -> str:
    """The start of a secret, for telling keys apart in a list."""
    return secret[: len(PREFIX) + 4] + "…"


class Digester:
    """Makes of a secret what the store keeps: HMAC-SHA256 (RFC 2104) under a pepper, or SHA-256 without one.

    With a pepper, whoever has a copy of the database can't even test whether some secret is one of its keys.
    """

    def __init__(self, pepper: str = "") -> None:
        """``pepper`` is the server's own secret; empty for none."""
        self._pepper = pepper.encode()

    def kept(self, secret: str) -> str:
        """The digest to keep of a new secret."""
        if not self._pepper:
            return hash_secret(secret)
        return PEPPERED + hmac.digest(self._pepper, secret.encode(), "sha256").hex()

    def known(self, secret: str) -> tuple[str, ...]:
        """All digests that a key may be kept under: also the plain one, from before there was a pepper."""
        kept = self.kept(secret)
        plain = hash_secret(secret)
        return (kept,) if kept == plain else (kept, plain)
