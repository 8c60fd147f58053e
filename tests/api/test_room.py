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


async def test_no_owner_takes_more_than_its_share() -> None:
    """Its own wait for each other, in front of nobody else; who has none shares with nobody."""
    room = Room(10, wait_s=0.01, each=5)
    async with room.take(4, "ann"):
        with pytest.raises(ProblemError):
            await AsyncExitStack().enter_async_context(room.take(2, "ann"))
        async with room.take(5, "bob"), room.take(1, "ann"):
            assert room.used == 10
        async with room.take(6):
            assert room.used == 10
    assert room.used == 0


async def test_what_waits_for_its_own_share_holds_up_nobody() -> None:
    """It stands in no line but its owner's; once its owner has room it goes on."""
    room, release, then = Room(10, each=4), asyncio.Event(), asyncio.Event()

    async def ann() -> None:
        async with room.take(4, "ann"):
            await release.wait()

    tasks = [asyncio.create_task(ann()) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5), room.take(6, "bob"):
        assert room.used == 10
    release.set()
    then.set()
    await asyncio.gather(*tasks)
    assert room.used == 0


async def test_room_is_given_back_in_parts() -> None:
    """By who finds that it needs less; never twice."""
    room = Room(10, each=8)
    async with room.take(8, "ann") as held:
        held.shrink(3)
        assert room.used == 3
        async with room.take(5, "ann"):
            assert room.used == 8
        held.shrink(7)
        assert room.used == 3
        held.shrink(0)
        assert room.used == 0
    assert room.used == 0
