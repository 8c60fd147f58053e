"""From what a client says of a quota to what the store keeps. Errors name the field."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from api.problems import invalid
from api.quota_schemas import OwnerFields, QuotaRequest
from jobstore.ids import uuid7
from jobstore.quotas import OwnerKind, Quota, QuotaKind, check_window, zones

_OWNER_KINDS: tuple[OwnerKind, ...] = ("key", "team", "customer")
_MOST = 100_000_000
_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


def quota_of(data: QuotaRequest, currency: str) -> Quota:
    """The quota that is asked for; ``currency`` is that of the prices. Raises ProblemError."""
    owner_kind, owner = _owner(data.owner)
    period = data.period or "total"
    zone = data.zone or "UTC"
    try:
        check_window(data.kind, period, zone, rolling=data.rolling)
    except ValueError as error:
        raise invalid("zone" if zone not in zones() else "period", str(error)) from None
    if zone != "UTC" and (data.rolling or period == "total"):
        raise invalid("zone", "zone is for windows of the calendar: leave it out")
    return Quota(
        id=uuid7(),
        owner_kind=owner_kind,
        owner=owner,
        kind=data.kind,
        most=limit_of(data.limit, data.kind),
        currency=_currency(data, currency),
        period=period,
        rolling=data.rolling,
        zone=zone,
    )


def limit_of(limit: int | str, kind: QuotaKind) -> Decimal:
    """The limit as a decimal. Raises ProblemError: what is counted is counted in whole numbers."""
    if kind is not QuotaKind.SPEND and isinstance(limit, str):
        raise invalid("limit", f"limit of {kind.value} must be a whole number, without quotes")
    if isinstance(limit, str) and not _AMOUNT.fullmatch(limit):
        raise invalid("limit", 'limit must be an amount like "10.50", of at most 9 decimals')
    most = Decimal(limit)
    if most > _MOST:
        raise invalid("limit", f"limit must be at most {_MOST}")
    return most


def _owner(owner: OwnerFields) -> tuple[OwnerKind, str]:
    given = [(kind, getattr(owner, kind)) for kind in _OWNER_KINDS if getattr(owner, kind) is not msgspec.UNSET]
    if len(given) != 1:
        raise invalid("owner", 'owner must be one of {"key": ID}, {"team": NAME} and {"customer": NAME}')
    kind, name = given[0]
    return kind, str(name)


def _currency(data: QuotaRequest, currency: str) -> str:
    if data.kind is not QuotaKind.SPEND:
        if data.currency is not None:
            raise invalid("currency", f"currency is for spend: {data.kind.value} counts no money")
        return ""
    if data.currency not in (None, currency):
        raise invalid("currency", f"currency must be {currency}: that is what the prices here are in")
    return currency
