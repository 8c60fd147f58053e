"""The suite that any store must pass: add a factory here, and every promise of the protocol is put to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from jobstore.postgres.store import PostgresStore
from jobstore.protocol import JobStore


@pytest.fixture(params=["postgresql"])
def make_store(request: pytest.FixtureRequest) -> Callable[[], JobStore]:
    """Makes unopened stores that share one empty place, as several processes would."""
    url = request.getfixturevalue("database")
    factories: dict[str, Callable[[], JobStore]] = {"postgresql": lambda: PostgresStore(url, max_connections=4)}
    return factories[request.param]


@pytest.fixture
async def stores(make_store: Callable[[], JobStore]) -> AsyncIterator[tuple[JobStore, ...]]:
    """Three open stores on the same place."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(3):
            store = make_store()
            await store.open()
            stack.push_async_callback(store.close)
            opened.append(store)
        yield tuple(opened)


@pytest.fixture
def store(stores: tuple[JobStore, ...]) -> JobStore:
    """One of them."""
    return stores[0]
