"""A service for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.actors.providers.service import Service, serve


@pytest.fixture
def service() -> Iterator[Service]:
    """Whom the tests ask."""
    with serve() as service:
        yield service
