"""Quotas inside a transaction: who may submit, and what a job holds and uses up as it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol
from uuid import UUID

from jobstore.errors import QuotaExceededError
from jobstore.job import JobState
from jobstore.quotas import (
    EPOCH,
    Owner,
    Quota,
    QuotaKind,
    QuotaStatus,
    Slice,
    counted_since,
    leaves_at,
    slice_start,
    window_end,
)

Row = dict[str, Any]
_NOTHING = Decimal(0)
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class QuotaBooking:
    """What changes in a slice of a quota."""

    quota_id: UUID
    starts_at: datetime
    held: Decimal
    used: Decimal


@dataclass(frozen=True)
class Entry:
    """A slice of a quota that a job is booked in; a job's row keeps it as JSON."""

    quota_id: UUID
    starts_at: datetime
    kind: QuotaKind

    @classmethod
    def of(cls, kept: Mapping[str, str]) -> Entry:
        """From what the row keeps."""
        starts_at = datetime.fromisoformat(kept["starts_at"])
        return cls(UUID(kept["quota_id"]), starts_at, QuotaKind(kept["kind"]))

    @cached_property
    def kept(self) -> dict[str, str]:
        """As the row keeps it."""
        return {"quota_id": str(self.quota_id), "starts_at": self.starts_at.isoformat(), "kind": self.kind.value}


class Claimant(Protocol):
    """Whatever wants to be booked: a new job, or one that is queued anew."""

    @property
    def currency(self) -> str:
        """Of its ceiling."""

    @property
    def ceiling(self) -> Decimal:
        """The most that it can come to."""


def owners_of(key_id: UUID | None, team: str | None, customer: str | None) -> list[Owner]:
    """Whose quotas count for a job."""
    owners: list[Owner] = []
    if key_id is not None:
        owners.append(("key", str(key_id)))
    if team is not None:
        owners.append(("team", team))
    if customer is not None:
        owners.append(("customer", customer))
    return owners


class _Counter:
    """One quota in an admission: what it had taken, and what is booked as the admission goes."""

    def __init__(self, quota: Quota, slices: Sequence[Slice], now: datetime) -> None:
        self.quota = quota
        self.entry = Entry(quota.id, slice_start(quota, now), quota.kind)  # all jobs come at the same time
        self._held_before = sum((piece.held for piece in slices), _NOTHING)
        self._used_before = sum((piece.used for piece in slices), _NOTHING)
        self.taken = self._held_before + self._used_before
        self._slices = slices
        self._now = now
        self._held = self._used = _NOTHING

    def has_room_for(self, amount: Decimal) -> bool:
        """True where so much more keeps within the limit; nothing always does."""
        return not amount or self.taken + amount <= self.quota.most

    def book(self, amount: Decimal) -> None:
        self.taken += amount
        if self.quota.kind is QuotaKind.REQUESTS:
            self._used += amount
        else:
            self._held += amount

    @property
    def booking(self) -> QuotaBooking:
        """What was booked."""
        return QuotaBooking(self.quota.id, self.entry.starts_at, self._held, self._used)

    @property
    def status(self) -> QuotaStatus:
        """How the quota stands, with what is booked."""
        held, used = self._held_before + self._held, self._used_before + self._used
        return QuotaStatus(quota=self.quota, held=held, used=used, ends_at=window_end(self.quota, self._now))

    def room_at(self, amount: Decimal) -> datetime | None:
        """When there is room for so much if nothing else comes; None where no passing of time makes any."""
        quota = self.quota
        if amount > quota.most or quota.period == "total":
            return None
        if not quota.rolling:
            return window_end(quota, self._now)
        excess = self.taken + amount - quota.most
        booked = Slice(starts_at=self.entry.starts_at, held=self._held, used=self._used)
        for piece in sorted([*self._slices, booked], key=lambda piece: piece.starts_at):
            excess -= piece.taken
            if excess <= 0:
                return leaves_at(quota, piece.starts_at)
        return window_end(quota, self._now)


class Admission:
    """Decides one submit after the other on what the quotas held when they were locked, and books as it goes.

    Whoever holds the quotas' locks is alone to add to them; others only settle meanwhile, which never adds to what is
    taken (a job is charged at most what it holds).
    """

    def __init__(self, quotas: Iterable[Quota], slices: Mapping[UUID, Sequence[Slice]], now: datetime) -> None:
        """``slices`` are those of each quota that count ``now``."""
        self._counters: dict[Owner, list[_Counter]] = {}
        for quota in quotas:
            counter = _Counter(quota, slices.get(quota.id, ()), now)
            self._counters.setdefault((quota.owner_kind, quota.owner), []).append(counter)
        self._booked: dict[int, _Counter] = {}

    @property
    def limited(self) -> set[Owner]:
        """The owners that have quotas."""
        return set(self._counters)

    @property
    def bookings(self) -> list[QuotaBooking]:
        """What has been booked so far, a row a slice."""
        return [counter.booking for counter in self._booked.values()]

    def standing(self, owners: Iterable[Owner]) -> tuple[QuotaStatus, ...]:
        """How the quotas of these owners stand, with all that has been booked so far."""
        return tuple(counter.status for owner in owners for counter in self._counters.get(owner, ()))

    def admit(self, job: Claimant, owners: Sequence[Owner], *, waits: bool, counts: bool = True) -> list[Entry]:
        """Book the job with all quotas of its owners; where it is booked. Raises QuotaExceededError, nothing booked.

        ``waits`` is False for a job that is answered at once, and so holds nothing; ``counts`` is False for one that
        was submitted before.
        """
        wanted = [
            (counter, amount)
            for owner in owners
            for counter in self._counters.get(owner, ())
            if (amount := _amount(counter.quota, job, waits=waits, counts=counts)) is not None
        ]
        if not all(counter.has_room_for(amount) for counter, amount in wanted):
            # What no waiting mends is said first.
            wanted.sort(key=lambda pair: pair[0].quota.kind is not QuotaKind.SPEND)
            full, amount = next(pair for pair in wanted if not pair[0].has_room_for(pair[1]))
            raise QuotaExceededError(full.status, amount, full.room_at(amount))
        for counter, amount in wanted:
            counter.book(amount)
            self._booked[id(counter)] = counter
        return [counter.entry for counter, _ in wanted]


def _amount(quota: Quota, job: Claimant, *, waits: bool, counts: bool) -> Decimal | None:
    """What the job takes of a quota; None where the quota doesn't concern it."""
    if quota.kind is QuotaKind.REQUESTS:
        return _ONE if counts else None
    if not waits:
        return None
    if quota.kind is QuotaKind.CONCURRENCY:
        return _ONE
    return job.ceiling if quota.currency == job.currency else None


def status_of(quota: Quota, slices: Iterable[Slice], now: datetime) -> QuotaStatus:
    """How a quota stands, from the slices that count now."""
    counted = list(slices)
    return QuotaStatus(
        quota=quota,
        held=sum((piece.held for piece in counted), _NOTHING),
        used=sum((piece.used for piece in counted), _NOTHING),
        ends_at=window_end(quota, now),
    )


def changes(before: Row, after: Row) -> list[QuotaBooking]:
    """What a job's change from one row to the other does to its quotas."""
    if not before["quotas"] and not after["quotas"]:
        return []
    sums: dict[tuple[UUID, datetime], tuple[Decimal, Decimal]] = {}
    for row, sign in ((before, -1), (after, 1)):
        for entry in map(Entry.of, row["quotas"]):
            held, used = _taken_by(row, entry)
            place = (entry.quota_id, entry.starts_at)
            known = sums.get(place, (_NOTHING, _NOTHING))
            sums[place] = (known[0] + sign * held, known[1] + sign * used)
    return [QuotaBooking(*place, *amounts) for place, amounts in sums.items() if any(amounts)]


def summed(bookings: Iterable[QuotaBooking]) -> list[QuotaBooking]:
    """One booking for each slice, in the order of their quotas and times."""
    sums: dict[tuple[UUID, datetime], QuotaBooking] = {}
    for booking in bookings:
        place = (booking.quota_id, booking.starts_at)
        known = sums.get(place)
        sums[place] = (
            booking if known is None else QuotaBooking(*place, known.held + booking.held, known.used + booking.used)
        )
    return [sums[place] for place in sorted(sums)]


def _taken_by(row: Row, entry: Entry) -> tuple[Decimal, Decimal]:
    """What a job holds and has used up of a slice, as its row stands. Submits are counted once, when they come."""
    unfinished = not JobState(row["state"]).terminal
    if entry.kind is QuotaKind.SPEND:
        return (row["ceiling"] if unfinished else _NOTHING), row["charged"]
    if entry.kind is QuotaKind.CONCURRENCY:
        return (_ONE if unfinished else _NOTHING), _NOTHING
    return _NOTHING, _NOTHING


class QuotaRows(Protocol):
    """What a store must be able to do with quotas inside a transaction."""

    async def now(self) -> datetime:
        """The store's clock."""

    async def lock_quotas(self, owners: Sequence[Owner]) -> tuple[list[Quota], datetime]:
        """The quotas of these owners, locked in the order of their ids against all others that would add to them.

        And the store's clock, be it from before the locks were had.
        """

    async def slices(self, since: Mapping[UUID, datetime]) -> dict[UUID, list[Slice]]:
        """The slices of each quota from an instant on."""

    def book_quotas(self, bookings: Sequence[QuotaBooking]) -> None:
        """Change slices at the end of the transaction, in an order that all transactions keep."""


async def admission(rows: QuotaRows, owners: Sequence[Owner]) -> Admission:
    """An admission for jobs of these owners. To be asked for before any job is locked."""
    quotas, now = await rows.lock_quotas(owners) if owners else ([], EPOCH)
    if not quotas:
        return Admission((), {}, now)
    return Admission(quotas, await rows.slices({quota.id: counted_since(quota, now) for quota in quotas}), now)
