"""Reads that are shared among those who want them at the same time."""

from __future__ import annotations

import asyncio

import pytest

from api.sharing import SharedReads


class Source:
    """Something to read that counts how often, and can be held."""

    def __init__(self) -> None:
        self.reads = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def read(self) -> int:
        """The number of this read, once it may go on."""
        self.reads += 1
        number = self.reads
        self.begun.set()
        await self.go.wait()
        return number


async def test_many_at_once_are_one_read() -> None:
    """And later ones another."""
    shared, source = SharedReads(), Source()
    source.go.set()
    assert set(await asyncio.gather(*(shared.read("job", source.read) for _ in range(100)))) == {1}
    assert await shared.read("job", source.read) == 2


async def test_whoever_comes_during_a_read_shares_the_next() -> None:
    """What it was woken for may not have been there when that one began."""
    shared, source = SharedReads(), Source()
    first = asyncio.create_task(shared.read("job", source.read))
    await source.begun.wait()
    late = [asyncio.create_task(shared.read("job", source.read)) for _ in range(10)]
    await asyncio.sleep(0)
    source.go.set()
    assert await first == 1
    assert set(await asyncio.gather(*late)) == {2}


async def test_one_that_gives_up_leaves_the_others() -> None:
    """A stream that was closed takes nobody's answer away."""
    shared, source = SharedReads(), Source()
    gone, stays = (asyncio.create_task(shared.read("job", source.read)) for _ in range(2))
    await source.begun.wait()
    gone.cancel()
    source.go.set()
    assert await stays == 1
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_an_error_is_everybodys_and_no_later_ones() -> None:
    """The next read is a read."""
    shared = SharedReads()

    async def broken() -> int:
        raise OSError("away")

    results = await asyncio.gather(*(shared.read("job", broken) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    source = Source()
    source.go.set()
    assert await shared.read("job", source.read) == 1
