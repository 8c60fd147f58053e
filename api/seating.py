"""Seats for what stays open: streams of events, and answers that wait for a job. No key has all of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable

JOBS_A_SEAT = 10
"""How many jobs one connection follows on one seat."""
_BEGIN_S = 5.0  # seats are held for streams that are about to begin; some never do, for their client has left
_SHARES = 4  # one owner has a quarter of the seats


class Seats:
    """The seats of one connection, from when it is let in until the last of its inboxes is gone."""

    def __init__(self, seating: Seating, owner: Hashable, count: int) -> None:
        """Held from now on; by ``until`` the first inbox must be there."""
        self.until = time.monotonic() + _BEGIN_S
        self.owner = owner
        self.count = count
        self._seating = seating
        self._inboxes = 0

    def sit(self) -> None:
        """One more inbox is there."""
        self._inboxes += 1
        if self._inboxes == 1:
            self._seating._begin(self)

    def rise(self) -> None:
        """One less."""
        self._inboxes -= 1
        if not self._inboxes:
            self._seating._free(self)


class Seating:
    """So many seats in all, a quarter of them, but one at least, for each owner. For one event loop."""

    def __init__(self, most: int) -> None:
        """Nobody is here."""
        self._most = most
        self._each = max(1, most // _SHARES)
        self._owned: Counter[Hashable] = Counter()
        self._waiting: set[Seats] = set()
        self.used = 0

    def take(self, owner: Hashable, jobs: int = 1) -> Seats | None:
        """Hold seats for a connection to so many jobs; None where there are none. An owner None is in no share."""
        self._expire()
        count = -(-jobs // JOBS_A_SEAT)
        if self.used + count > self._most or (owner is not None and self._owned[owner] + count > self._each):
            return None
        seats = Seats(self, owner, count)
        self._waiting.add(seats)
        self._hold(seats)
        return seats

    def _begin(self, seats: Seats) -> None:
        if seats in self._waiting:
            self._waiting.discard(seats)
        else:  # it was late
            self._hold(seats)

    def _hold(self, seats: Seats) -> None:
        self.used += seats.count
        if seats.owner is not None:
            self._owned[seats.owner] += seats.count

    def _free(self, seats: Seats) -> None:
        self.used -= seats.count
        if seats.owner is not None:
            self._owned[seats.owner] -= seats.count
            if not self._owned[seats.owner]:
                del self._owned[seats.owner]

    def _expire(self) -> None:
        now = time.monotonic()
        for seats in [seats for seats in self._waiting if seats.until <= now]:
            self._waiting.discard(seats)
            self._free(seats)
