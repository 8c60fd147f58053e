"""Quotas as clients see them."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from api.quota_schemas import OwnerFields, QuotaView
from api.views import plain_amount
from jobstore.keys import ApiKey
from jobstore.quotas import QuotaKind, QuotaStatus


def quota_view(status: QuotaStatus, *, to: ApiKey | None) -> QuotaView:
    """The quota as the key ``to`` sees it: not what others of its team or customer hold and have used, but an admin."""
    whole = to is None or to.admin or status.quota.owner_kind == "key"
    quota = status.quota
    owner = {
        "key": lambda: OwnerFields(key=UUID(quota.owner)),
        "team": lambda: OwnerFields(team=quota.owner),
        "customer": lambda: OwnerFields(customer=quota.owner),
    }[quota.owner_kind]()

    def told(amount: Decimal) -> str | int:
        return plain_amount(amount) if quota.kind is QuotaKind.SPEND else int(amount)

    return QuotaView(
        id=quota.id,
        owner=owner,
        kind=quota.kind,
        limit=told(quota.most),
        currency=quota.currency or None,
        period=quota.period,
        rolling=quota.rolling,
        zone=quota.zone,
        held=told(status.held) if whole else None,
        used=told(status.used) if whole else None,
        left=told(status.left),
        ends_at=status.ends_at,
        created_at=quota.created_at,
    )
