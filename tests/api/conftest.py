"""A running API for each test."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from jobstore.outputs import Outputs
from tests.api.site import Driver, Site
from tests.contract.emptying import empty_postgres


@pytest.fixture
def database(emptied_database: str) -> str:
    """The URL of a database with the whole schema and nothing in it."""
    empty_postgres(emptied_database)
    return emptied_database


@pytest.fixture
def site(database: str, outputs: Outputs) -> Iterator[Site]:
    """The API on a fresh database."""
    with Site(database, outputs).serve() as site:
        yield site


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    """A client of the API."""
    with httpx.Client(base_url=site.url, timeout=20) as client:
        yield client


@pytest.fixture
def worker(site: Site) -> Driver:
    """Something that renders when it is told to."""
    return Driver(site)
