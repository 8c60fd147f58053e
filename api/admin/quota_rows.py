"""Quotas as the pages show them: whose, how much of them is taken, and whether that is nearly all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

from api.operating.problems import BUDGET_SHARE
from api.quota_schemas import QuotaView
from api.quota_views import quota_view
from api.views import plain_amount
from jobstore.quotas import OwnerKind, QuotaKind, QuotaStatus, window_words

_ALL = Decimal(1)


class QuotaRow(Struct, frozen=True, kw_only=True):
    """A quota; ``percent`` of it is taken, rounded down so that only what is full says 100.

    ``name`` is the owner's: of a key the one that people gave it, and its id where the key is not known.
    """

    view: QuotaView
    owner_kind: OwnerKind
    owner: str
    name: str
    window: str
    taken: str
    percent: int

    @property
    def state(self) -> str:
        """``full``, ``near`` or nothing."""
        return "full" if self.percent >= 100 else "near" if self.percent >= BUDGET_SHARE * 100 else ""

    @property
    def label(self) -> str:
        """What tells it from the others."""
        return f"{self.view.kind.value} {self.window} of {self.owner_kind} {self.name}"


def quota_row(status: QuotaStatus, names: Mapping[str, str]) -> QuotaRow:
    """The row of a quota; ``names`` are those of keys, by their ids."""
    quota = status.quota
    taken = status.held + status.used
    zone = f", {quota.zone}" if quota.zone != "UTC" else ""
    window = window_words(quota.period, rolling=quota.rolling)
    none = "at once" if quota.kind is QuotaKind.CONCURRENCY else "in all"
    return QuotaRow(
        view=quota_view(status, to=None),
        owner_kind=quota.owner_kind,
        owner=quota.owner,
        name=names.get(quota.owner, quota.owner) if quota.owner_kind == "key" else quota.owner,
        window=(window or none) + zone,
        taken=plain_amount(taken),
        percent=int(100 * share(status)),
    )


def share(status: QuotaStatus) -> Decimal:
    """How much of it is taken; all of a limit of nought."""
    most = status.quota.most
    return (status.held + status.used) / most if most else _ALL


def tightest(statuses: Iterable[QuotaStatus]) -> QuotaStatus | None:
    """The budget of which the least share is left; None without any that counts money."""
    return max((one for one in statuses if one.quota.kind is QuotaKind.SPEND), key=share, default=None)


def full_or_near(status: QuotaStatus) -> bool:
    """True where nearly all of it is taken, or all."""
    return share(status) >= BUDGET_SHARE
