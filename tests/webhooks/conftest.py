"""A store with an empty outbox, a receiver, and a courier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from actors.webhooks.courier import Courier
from jobstore.postgres.store import PostgresStore
from safelight.config import WebhookSettings
from tests.contract.emptying import empty_postgres
from tests.webhooks.receiver import Receiver, receiver

LOOPBACK = WebhookSettings(allow_http=True, allow_private=True, timeout_s=5.0, base_url="https://pictures.example/")


@pytest.fixture
def database(emptied_database: str) -> str:
    """The URL of a database with the whole schema and nothing in it."""
    empty_postgres(emptied_database)
    return emptied_database


@pytest.fixture
def hook() -> Iterator[Receiver]:
    """A receiver that is up."""
    with receiver() as here:
        yield here


@pytest.fixture
async def courier(store: PostgresStore) -> AsyncIterator[Courier]:
    """A courier that may call loopback; it delivers when it is told to look."""
    courier = Courier(store, LOOPBACK)
    yield courier
    await courier.close()
