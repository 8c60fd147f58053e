"""Groups share the device, without a device."""

from __future__ import annotations

from actors.engine.groups import Groups
from actors.engine.stepping import BatchKey, Row

SMALL, LARGE = BatchKey("m", 64, 64), BatchKey("m", 128, 128)


def rows(key: BatchKey, count: int) -> list[Row]:
    """Rows of ten steps."""
    return [Row(key=key, steps=10) for _ in range(count)]


def test_rows_beyond_the_limit_wait_in_order() -> None:
    """And step as soon as others leave; where the limit falls, those that came last wait again."""
    groups = Groups(open_groups=2)
    five = rows(SMALL, 5)
    group = groups.add(SMALL, five, now=0.0)
    assert group.fill(3) == five[:3]
    groups.remove(five[0])
    assert group.fill(3) == five[1:4]
    assert group.fill(1) == five[1:2]
    assert group.fill(8) == five[1:]


def test_a_group_without_rows_is_closed() -> None:
    """Its place is free for another key."""
    groups = Groups(open_groups=1)
    (one,) = rows(SMALL, 1)
    groups.add(SMALL, [one], now=0.0)
    assert len(groups) == 1
    groups.remove(one)
    groups.remove(one)
    assert not groups.full
    assert groups.get(SMALL) is None


def test_the_group_that_has_had_least_time_goes_next() -> None:
    """One that opens later begins with the least that another has had."""
    groups = Groups(open_groups=2)
    groups.add(SMALL, rows(SMALL, 1), now=0.0).used_s = 5.0
    late = groups.add(LARGE, rows(LARGE, 1), now=1.0)
    assert late.used_s == 5.0
    late.used_s += 1.0
    turn = groups.next()
    assert turn is not None
    assert turn.key == SMALL


def test_one_group_closes_at_a_time_the_oldest_first() -> None:
    """What it holds goes on; the other still takes in."""
    groups = Groups(open_groups=2)
    old, young = groups.add(SMALL, rows(SMALL, 1), now=0.0), groups.add(LARGE, rows(LARGE, 1), now=1.0)
    groups.close_oldest()
    groups.close_oldest()
    assert (old.closing, young.closing) == (True, False)
