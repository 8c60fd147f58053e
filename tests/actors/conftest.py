"""An engine for the session, and a darkroom for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from actors.engine import Engine
from jobstore.outputs import Outputs
from jobstore.postgres.store import PostgresStore
from tests.actors.harness import MODEL, Darkroom
from tests.actors.standin import StandInEngine
from tests.engine.conftest import TIMEOUT_S


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine that serves ``scenes``."""
    engine = Engine({"scenes": MODEL}, device="cpu")
    engine.start(warm=["scenes"])
    yield engine
    assert engine.stop(TIMEOUT_S)


@pytest.fixture
async def darkroom(store: PostgresStore, database: str, outputs: Outputs, engine: Engine) -> AsyncIterator[Darkroom]:
    """Everything in one process, as ``safelight up`` runs it."""
    room = Darkroom(store, database, outputs, engine, "memory")
    yield room
    room.progress.let_go()
    await room.stop(grace_s=0.1)


@pytest.fixture
def standin() -> StandInEngine:
    """The engine of this room."""
    return StandInEngine()


@pytest.fixture
async def room(
    store: PostgresStore, database: str, outputs: Outputs, standin: StandInEngine
) -> AsyncIterator[Darkroom]:
    """A darkroom whose engine does what the test says."""
    room = Darkroom(store, database, outputs, standin.engine, "memory")
    yield room
    await room.stop(grace_s=0.1)
