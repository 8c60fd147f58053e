"""The knee of a curve that the test draws."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from actors.engine.compiled.knee import TOLERANCE, Timing, choose_rows, find_knee, row_counts

positive = st.floats(0.001, 10.0)


def test_row_counts() -> None:
    """Dense at first, then twice in every octave; the most is always measured."""
    assert list(row_counts(1)) == [1]
    assert list(row_counts(8)) == [1, 2, 3, 4, 6, 8]
    assert list(row_counts(20)) == [1, 2, 3, 4, 6, 8, 12, 16, 20]


@given(fixed=st.floats(0.0, 1.0), each=positive, full=st.integers(1, 24), most=st.integers(1, 64))
def test_the_knee_of_a_device_that_fills_up(fixed: float, each: float, full: int, most: int) -> None:
    """time(B) = a + b max(B, k): the choice is within the tolerance of the best measured, and no fewer rows are."""

    def seconds(rows: int) -> float:
        return fixed * each + each * max(rows, full)

    knee = find_knee(seconds, most)
    assert knee is not None
    assert not knee.full
    best = min(timing.per_row for timing in knee.timings)
    assert seconds(knee.rows) / knee.rows <= best * (1 + TOLERANCE)
    for timing in knee.timings:
        assert timing.rows >= knee.rows or timing.per_row > best * (1 + TOLERANCE)
    # Up to the point where the device is full, every row comes for free: the choice is not left of it by much.
    measured = [rows for rows in row_counts(most) if rows <= full]
    assert knee.rows >= measured[-1] or fixed > 0


@given(each=positive)
def test_a_device_that_one_row_fills(each: float) -> None:
    """Rows that share nothing are not batched, and measuring ends soon."""
    knee = find_knee(lambda rows: each * rows, 64)
    assert knee is not None
    assert knee.rows == 1
    assert [timing.rows for timing in knee.timings] == [1, 2, 3]


def test_one_slow_size_ends_nothing() -> None:
    """Three rows are odd and slow; four are worth it again."""
    times = {1: 1.0, 2: 1.1, 3: 2.0, 4: 1.3, 6: 1.9, 8: 2.6, 12: 4.0}
    knee = find_knee(lambda rows: times[rows], 12)
    assert knee is not None
    assert knee.rows == 4  # 6 rows would gain 2.6 %


@given(fits=st.integers(0, 12))
def test_memory_that_runs_out(fits: int) -> None:
    """The table ends before the batch that did not fit; without a single row there is no knee."""
    heard: list[Timing] = []
    knee = find_knee(lambda rows: 1.0 if rows <= fits else None, 12, heard.append)
    if fits == 0:
        assert knee is None
        return
    assume(knee is not None)
    assert knee is not None
    assert knee.full == (fits < 12)
    assert knee.rows == max(timing.rows for timing in knee.timings) <= fits
    assert list(knee.timings) == heard


def test_the_fewest_rows_of_equals_win() -> None:
    """Within the tolerance, fewer rows wait less."""
    assert choose_rows([Timing(1, 1.0), Timing(2, 1.04), Timing(4, 2.0), Timing(8, 3.99)]) == 2
    assert choose_rows([Timing(1, 1.0), Timing(2, 1.0), Timing(4, 1.8)]) == 4
