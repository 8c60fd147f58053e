"""One house for all tests of single faults; each test leaves it whole, and with the books in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.desk import Desk
from tests.chaos.house import House, Plan
from tests.chaos.servers import Servers, own_servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """PostgreSQL and RabbitMQ of the chaos tests' own."""
    with own_servers() as servers:
        yield servers


@pytest.fixture(scope="session")
def shared_house(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Two APIs and two workers."""
    folder: Path = tmp_path_factory.mktemp("house")
    with House(servers, folder, Plan(apis=2, workers=2, step_s=0.01)) as house:
        yield house


@pytest.fixture
def house(shared_house: House) -> Iterator[House]:
    """The house, whole before and after."""
    yield shared_house
    shared_house.heal()


@pytest.fixture
def desk(house: House) -> Iterator[Desk]:
    """A desk whose jobs are audited after the test."""
    desk = Desk(house)
    yield desk
    house.heal()
    assert desk.audit().broken == []
