"""How many rows are worth stepping together: the knee of the curve of pictures a second over rows. Pure.

A device that is not full takes a row more for nearly nothing; once it is full, a row more takes its whole time, and a
larger batch only makes everybody in it wait longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

TOLERANCE = 0.05
"""What is within 5 % of the best is as good."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A step of ``rows`` rows takes so many ``seconds``."""

    rows: int
    seconds: float

    @property
    def per_row(self) -> float:
        """Seconds a row."""
        return self.seconds / self.rows


@dataclass(frozen=True, slots=True)
class Knee:
    """``rows`` are worth stepping together, by the table of ``timings``. ``full``: more did not fit into memory."""

    rows: int
    timings: tuple[Timing, ...]
    full: bool = False


def find_knee(
    time_step: Callable[[int], float | None],
    most: int,
    on_measure: Callable[[Timing], None] = lambda _: None,
) -> Knee | None:
    """Measure steps of 1, 2, 3, 4, 6, 8 … rows up to ``most`` and choose.

    ``time_step`` gives the seconds of a step of so many rows, None where memory ran out. Ends there, at ``most``, or
    once a row's time has not fallen by more than the tolerance twice in a row: one odd size may be slow by itself.
    None where not even one row fits.
    """
    timings: list[Timing] = []
    for rows in row_counts(most):
        seconds = time_step(rows)
        if seconds is None:
            return _chosen(timings, full=True)
        timings.append(Timing(rows, seconds))
        on_measure(timings[-1])
        if _flat(timings):
            break
    return _chosen(timings, full=False)


def choose_rows(timings: Sequence[Timing]) -> int:
    """The fewest rows whose pictures a second are within the tolerance of the best."""
    best = min(timing.per_row for timing in timings)
    return min(timing.rows for timing in timings if timing.per_row <= best * (1 + TOLERANCE))


def row_counts(most: int) -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16 … up to ``most``, which is the last."""
    rows = 1
    while rows < most:
        yield rows
        # From a power of two half as much again, from the number between to the next power of two.
        rows = rows + max(1, rows // 2) if rows & (rows - 1) == 0 else rows * 4 // 3
    yield most


def _flat(timings: Sequence[Timing]) -> bool:
    """Whether neither of the last two measurements brought a gain over the best before them."""
    if len(timings) < 3:
        return False
    before = min(timing.per_row for timing in timings[:-2])
    return all(timing.per_row > before * (1 - TOLERANCE) for timing in timings[-2:])


def _chosen(timings: Sequence[Timing], *, full: bool) -> Knee | None:
    return Knee(choose_rows(timings), tuple(timings), full) if timings else None
