"""Batch sizes that get a graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.engine.compiled.buckets import SMALL_PIXELS, bucket_of, buckets

LARGE = 1024 * 1024


def test_small_pictures_get_powers_of_two() -> None:
    """Where launches decide, a few graphs will do."""
    assert buckets(8, SMALL_PIXELS) == (1, 2, 4, 8)
    assert buckets(6, 64 * 64) == (1, 2, 4, 6)


def test_large_pictures_get_every_size() -> None:
    """Where arithmetic decides, padding costs what it computes."""
    assert buckets(8, LARGE) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert buckets(1, LARGE) == (1,)


@given(st.integers(1, 256), st.sampled_from([64 * 64, SMALL_PIXELS, LARGE]), st.data())
def test_buckets_hold_every_batch(limit: int, pixels: int, data: st.DataObject) -> None:
    """Every batch up to the limit has a bucket, the smallest that holds it; large pictures waste an eighth at most."""
    sizes = buckets(limit, pixels)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] == limit
    rows = data.draw(st.integers(1, limit))
    bucket = bucket_of(rows, sizes)
    assert bucket is not None
    assert bucket >= rows
    assert not [size for size in sizes if rows <= size < bucket]
    assert bucket < 2 * rows or rows == bucket
    if pixels > SMALL_PIXELS:
        assert bucket - rows <= rows / 8


def test_beyond_the_largest_there_is_none() -> None:
    """More rows than the limit, and no limit at all."""
    assert bucket_of(9, buckets(8, LARGE)) is None
    with pytest.raises(ValueError, match="at most 0 rows"):
        buckets(0, LARGE)
