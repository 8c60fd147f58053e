"""What goes over the wire about API keys and the audit log. docs/keys.md explains the fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from jobstore.key_fields import MAX_MODELS, MAX_NAME
from jobstore.key_networks import MAX_NETWORKS, MAX_TEXT
from jobstore.keys import MAX_GRACE_S, MAX_WEIGHT, MIN_WEIGHT, OWNER_PATTERN, KeyState, Scope
from safelight.config.settings import Name

KeyName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Scopes = Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=10)]
Models = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_MODELS)]
Network = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Networks = Annotated[tuple[Network, ...], Meta(min_length=1, max_length=MAX_NETWORKS)]
Owner = Annotated[str, Meta(pattern=rf"^{OWNER_PATTERN}\Z")]
Weight = Annotated[float, Meta(ge=MIN_WEIGHT, le=MAX_WEIGHT)]
Moment = Annotated[datetime, Meta(tz=True)]


class KeyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made. ``models`` are those it may use, null for all; ``weight`` is its share of a lane.

    ``networks`` are those it may be used from, such as 10.0.0.0/8 or an address alone; null for anywhere.
    ``expires_at`` is RFC 3339 with a time zone, null for never. The scope ``admin`` includes the others.
    """

    name: KeyName
    scopes: Scopes = (Scope.SUBMIT, Scope.READ)
    models: Models | None = None
    networks: Networks | None = None
    team: Owner | None = None
    customer: Owner | None = None
    weight: Weight = 1.0
    expires_at: Moment | None = None


class KeyPatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes in a key; what is left out stays, and null takes a field away."""

    name: KeyName | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    models: Models | UnsetType | None = UNSET
    networks: Networks | UnsetType | None = UNSET
    team: Owner | UnsetType | None = UNSET
    customer: Owner | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    expires_at: Moment | UnsetType | None = UNSET


class RotateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how many seconds the old secret counts beside the new one; 0 for not at all."""

    grace_s: Annotated[float, Meta(ge=0, le=MAX_GRACE_S)] = 0


class KeyView(Struct, frozen=True, kw_only=True):
    """A key as administrators see it; ``hint`` is the start of its secret.

    ``previous_until``: until then the secret from before the last rotation counts, too. ``peppered``: the server's
    pepper is in the digest of its secret.
    """

    id: UUID
    object: Literal["api_key"] = "api_key"
    name: str
    hint: str
    state: KeyState
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] | None
    networks: tuple[str, ...] | None
    team: str | None
    customer: str | None
    weight: float
    peppered: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    previous_until: datetime | None


class KeyMade(KeyView, frozen=True, kw_only=True):
    """A key with its new ``secret``, which is shown this once."""

    secret: str


class KeyList(Struct, frozen=True, kw_only=True):
    """Keys, oldest first. ``next_cursor`` asks for the next page; null on the last."""

    object: Literal["list"] = "list"
    data: tuple[KeyView, ...]
    next_cursor: str | None


class AuditView(Struct, frozen=True, kw_only=True):
    """What somebody did. ``actor`` names the key that did it, or who else; ``key_id`` is null for the latter."""

    id: int
    object: Literal["audit_entry"] = "audit_entry"
    at: datetime
    actor: str
    key_id: UUID | None
    action: str
    target: str
    details: dict[str, Any]


class AuditList(Struct, frozen=True, kw_only=True):
    """Audit entries, newest first. ``next_cursor`` asks for the next page; null on the last."""

    object: Literal["list"] = "list"
    data: tuple[AuditView, ...]
    next_cursor: str | None
