"""What goes over the wire about quotas. docs/budgets.md explains the fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from jobstore.keys import OWNER_PATTERN, Scope
from jobstore.quotas import QuotaKind

OwnerName = Annotated[str, Meta(pattern=rf"^{OWNER_PATTERN}\Z")]
Limit = Annotated[int, Meta(ge=0, le=100_000_000)] | Annotated[str, Meta(max_length=20)]


class OwnerFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose quota it is: one of a key's id, a team's name and a customer's."""

    key: UUID | UnsetType = UNSET
    team: OwnerName | UnsetType = UNSET
    customer: OwnerName | UnsetType = UNSET


class QuotaRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A quota to be made. ``limit`` is an amount in quotes for ``spend``, else a whole number.

    ``period`` is a number and one of s, m, h, d, w, M, y, or ``total``: a window of the calendar's in the time zone
    ``zone``, or one that ends now, where it is ``rolling``. ``concurrency`` takes none.
    """

    owner: OwnerFields
    kind: QuotaKind
    limit: Limit
    currency: Annotated[str, Meta(max_length=3)] | None = None
    period: Annotated[str, Meta(max_length=10)] | None = None
    rolling: bool = False
    zone: Annotated[str, Meta(max_length=64)] | None = None


class QuotaPatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limit from now on; null takes the quota away: none is not nought."""

    limit: Limit | None


class QuotaView(Struct, frozen=True, kw_only=True):
    """A quota as it stands in the window that ends at ``ends_at`` (null where it has none).

    ``held`` is for unfinished jobs, ``used`` for good, ``left`` what there still is to be had; amounts are decimals as
    strings, counts numbers. Of a team's or a customer's, keys that are no admin's are told the limit and what is left.
    """

    id: UUID
    object: Literal["quota"] = "quota"
    owner: OwnerFields
    kind: QuotaKind
    limit: str | int
    currency: str | None
    period: str
    rolling: bool
    zone: str
    held: str | int | None
    used: str | int | None
    left: str | int
    ends_at: datetime | None
    created_at: datetime


class QuotaList(Struct, frozen=True, kw_only=True):
    """Quotas, oldest first. ``next_cursor`` asks for the next page; null on the last."""

    object: Literal["list"] = "list"
    data: tuple[QuotaView, ...]
    next_cursor: str | None


class MeView(Struct, frozen=True, kw_only=True):
    """Who asks. ``id`` and ``name`` are null where no key is needed; ``models`` are those that may be used."""

    object: Literal["me"] = "me"
    id: UUID | None
    name: str | None
    scopes: tuple[Scope, ...]
    models: tuple[str, ...]
    team: str | None
    customer: str | None
    weight: float
    expires_at: datetime | None
    quotas: tuple[QuotaView, ...]
