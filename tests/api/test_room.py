"""A bound on the bytes that are held at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from api.problems import ProblemError
from api.room import Room


async def held(room: Room, size: int, release: asyncio.Event) -> None:
    """Take room until the event."""
    async with room.take(size):
        await release.wait()


async def test_who_finds_no_room_waits_in_line() -> None:
    """Also where there would be room for one behind it: else the large would wait for ever."""
    room, first, then = Room(10), asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(held(room, size, event)) for size, event in ((6, first), (8, then), (2, then))]
    await asyncio.sleep(0)
    assert room.used == 6
    first.set()
    await tasks[0]
    await asyncio.sleep(0)
    assert room.used == 10
    then.set()
    await asyncio.gather(*tasks)
    assert room.used == 0


async def test_the_wait_is_bounded() -> None:
    """Then it is a 503 that says when to come again; nothing of it stays."""
    room = Room(10, wait_s=0.01)
    async with room.take(99):
        assert room.used == 10
        with pytest.raises(ProblemError) as refused:
            await AsyncExitStack().enter_async_context(room.take(1))
    assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "5"})
    assert room.used == 0


@pytest.mark.parametrize("let_in", [False, True])
async def test_who_goes_leaves_its_room(let_in: bool) -> None:
    """While it waits, and at the very moment that its turn comes."""
    room, release, never = Room(10), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(held(room, 10, release))
    second = asyncio.create_task(held(room, 10, never))
    third = asyncio.create_task(held(room, 1, release))
    await asyncio.sleep(0)
    if let_in:
        room._leave(10)
    second.cancel()
    await asyncio.wait([second])
    if let_in:
        room.used += 10
    release.set()
    await asyncio.gather(first, third)
    assert room.used == 0
