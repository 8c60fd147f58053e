"""Who may have an open stream, or wait for a job: all in all so many, and no key all of them."""

from __future__ import annotations

import time
from typing import Any, cast

from api.seating import Seating
from api.tail import Tail

STORE = cast("Any", None)


def test_no_key_takes_all_seats() -> None:
    """It has a quarter, and one at least; who has no key shares with nobody."""
    seating = Seating(8)
    held = [seating.take("ann"), seating.take("ann")]
    assert all(held)
    assert seating.take("ann") is None
    others = [seating.take(owner) for owner in ("bob", "bob", None, None, None, None)]
    assert all(others)
    assert seating.take("cid") is None
    assert Seating(1).take("ann") is not None
    assert Seating(0).take(None) is None


def test_a_connection_to_many_jobs_takes_a_seat_for_ten() -> None:
    """And gives all of them back with the last of its inboxes."""
    seating = Seating(20)
    seats = seating.take("ann", 41)
    assert seats is not None
    assert seating.used == 5
    assert seating.take("ann") is None
    seats.sit()
    seats.sit()
    seats.rise()
    assert seating.used == 5
    seats.rise()
    assert seating.used == 0
    assert seating.take("ann", 50) is not None


def test_seats_of_who_never_begins_are_given_to_others() -> None:
    """After a while; who begins after all has them again."""
    seating = Seating(1)
    late = seating.take(None)
    assert late is not None
    assert seating.take(None) is None
    late.until = time.monotonic() - 1
    other = seating.take(None)
    assert other is not None
    late.sit()
    assert seating.used == 2
    late.rise()
    other.sit()
    other.rise()
    assert seating.used == 0


def test_answers_that_wait_have_seats_of_their_own() -> None:
    """However many streams there are."""
    tail = Tail(STORE, 4)
    streams = [tail.reserve(owner) for owner in ("ann", "bob", "cid", "dan")]
    assert all(streams)
    assert tail.reserve("eve") is None
    assert tail.reserve_answer("eve") is not None
    assert tail.reserve_answer("eve") is None
    tail.close()
    assert tail.reserve_answer("ann") is None
