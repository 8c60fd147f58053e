"""Who has room for an upload: everybody some, nobody all."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from api.beginning import room_for_body
from api.openai.pixels import PixelWork
from api.problems import ProblemError
from safelight.config import Settings


async def test_small_uploads_have_room_of_their_own() -> None:
    """However many large ones, or ones without a length, are on their way; and no key has all of either."""
    services: Any = SimpleNamespace(settings=Settings(), pixels=PixelWork())
    rooms, server = services.pixels, services.settings.server
    ann, bob = (_request_of(uuid4()) for _ in range(2))
    for room in (rooms.bodies, rooms.small_bodies):
        room._wait_s = 0.01
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(room_for_body(ann, services, server.upload_limit_bytes))
        with pytest.raises(ProblemError):
            await AsyncExitStack().enter_async_context(room_for_body(ann, services, None))
        await stack.enter_async_context(room_for_body(bob, services, None))
        await stack.enter_async_context(room_for_body(ann, services, server.body_limit_bytes))
        assert rooms.bodies.used == 4 * server.upload_limit_bytes
        assert rooms.small_bodies.used == 2 * server.body_limit_bytes
    assert rooms.bodies.used == rooms.small_bodies.used == 0


async def test_no_key_has_all_threads() -> None:
    """What takes long to decode holds up its own key's pictures alone."""
    uploads = PixelWork().uploads
    uploads._wait_s = 0.01
    async with uploads.take(1, "ann"):
        with pytest.raises(ProblemError):
            await AsyncExitStack().enter_async_context(uploads.take(1, "ann"))
        async with uploads.take(1, "bob"):
            assert uploads.used == 2


def _request_of(key_id: object) -> Any:
    return SimpleNamespace(scope={"state": {"key": SimpleNamespace(id=key_id)}})
