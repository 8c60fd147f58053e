"""Which batch sizes get a CUDA graph of their own. Pure.

A graph replays one batch size, so a pass of fewer rows is filled up to the next. Where launches decide the time, a row
more costs nearly nothing and a few graphs will do: powers of two. Where arithmetic decides it, 5 rows filled up to 8
cost 60 % more: every size up to 8, and then steps of an eighth of the power of two below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SMALL_PIXELS = 512 * 512
"""Pictures of at most so many pixels count as bound by launches."""


def buckets(limit: int, pixels: int) -> tuple[int, ...]:
    """The batch sizes that passes of up to ``limit`` rows are filled up to, rising; the last is ``limit``.

    ``pixels`` are those of one picture. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"a batch of at most {limit} rows has no bucket")
    sizes, size = [], 1
    while size < limit:
        sizes.append(size)
        size += size if pixels <= SMALL_PIXELS else _eighth(size)
    return (*sizes, limit)


def bucket_of(rows: int, sizes: Sequence[int]) -> int | None:
    """The smallest of the rising ``sizes`` that holds ``rows``; None where none does."""
    index = bisect_left(sizes, rows)
    return sizes[index] if index < len(sizes) else None


def _eighth(size: int) -> int:
    """An eighth of the largest power of two up to ``size``, at least 1."""
    return max(1, (1 << (size.bit_length() - 1)) // 8)
