"""One API over HTTP and gRPC for all tests of a module, open; and one that wants keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobstore.outputs import open_outputs
from tests.api.grpc.client import Caller
from tests.api.site import SETTINGS, Driver, Site, with_server
from tests.contract.emptying import empty_postgres

SERVED = with_server(SETTINGS, grpc_port=0, grpc_message_limit_bytes=100_000, upload_limit_bytes=300_000)


@pytest.fixture(scope="module")
def site(emptied_database: str) -> Iterator[Site]:
    """The API."""
    empty_postgres(emptied_database)
    with tempfile.TemporaryDirectory(prefix="safelight-test-") as folder:
        outputs = open_outputs((Path(folder) / "outputs").as_uri())
        with Site(emptied_database, outputs, SERVED).serve() as site:
            httpx.get(f"{site.url}/livez", timeout=20).raise_for_status()  # it serves once it has started
            yield site


@pytest.fixture
def calls(site: Site) -> Iterator[Caller]:
    """A client without a key."""
    caller = Caller(site)
    yield caller
    caller.close()


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    """A client of the same over HTTP."""
    with httpx.Client(base_url=site.url, timeout=20) as client:
        yield client


@pytest.fixture
def worker(site: Site) -> Driver:
    """Something that renders when it is told to."""
    return Driver(site)
