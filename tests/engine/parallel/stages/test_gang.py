"""When a step is exact: at the start of a gang, which any change of its rows is."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.engine.families.base import Inputs
from actors.engine.parallel.stages.gang import Gang
from actors.engine.stepping import BatchKey, Row
from safelight.config import ParallelSettings

KEY = BatchKey("m", 64, 64)


def rows(count: int) -> list[Row]:
    """Rows at their start."""
    return [Row(key=KEY, steps=20) for _ in range(count)]


def steps_of(gang: Gang, members: list[Row], count: int) -> str:
    """The kinds of so many steps, by their first letters."""
    kinds = []
    for _ in range(count):
        kinds.append(gang.orders((Inputs({}),), KEY, members)[0].note["step"][0])
        for row in members:
            row.step += 1
    return "".join(kinds)


def gang(stride: Literal[1, 2] = 1, warmup: int = 2, devices: int = 2) -> Gang:
    """The engine's half."""
    return Gang(ParallelSettings(kind="async", devices=devices, warmup=warmup, stride=stride))


@pytest.mark.parametrize(("stride", "kinds"), [(1, "eerrrrr"), (2, "eerarar")])
def test_exact_steps_come_first(stride: Literal[1, 2], kinds: str) -> None:
    """Then rounds, each of which serves as many steps as the stride says."""
    assert steps_of(gang(stride), rows(2), 7) == kinds


def test_any_change_of_rows_warms_up_again() -> None:
    """A row that joins, one that leaves, rows that change places, a step taken again, another's pass between."""
    mine, old = gang(), rows(2)
    assert steps_of(mine, old, 4) == "eerr"
    old += rows(1)
    assert steps_of(mine, old, 4) == "eerr"
    assert steps_of(mine, old[1:], 3) == "eer"
    assert steps_of(mine, old[:0:-1], 3) == "eer"
    old[1].step -= 1
    assert steps_of(mine, old[:0:-1], 3) == "eer"
    mine.orders((Inputs({}),), None, ())
    assert steps_of(mine, old[:0:-1], 3) == "eer"
    mine.begin()
    assert steps_of(mine, old[:0:-1], 3) == "eer"


def test_a_strides_second_step_is_the_last_stage_s_alone() -> None:
    """And its answers are always those that count."""
    mine, two = gang(2, 1, 3), rows(2)
    steps_of(mine, two, 2)
    orders = mine.orders((Inputs({}),), KEY, two)
    assert [(len(order.passes), order.answers, order.note["step"]) for order in orders] == [
        (0, False, "again"),
        (0, False, "again"),
        (1, True, "again"),
    ]
