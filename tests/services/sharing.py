"""Tests in several processes at a time (pytest-xdist): which stay together, and servers that all of them share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.services.postgres import postgres_server
from tests.services.rabbitmq import rabbitmq_server

TESTS = Path(__file__).parents[1]
OF_PROCESSES = frozenset({"browser", "cli", "e2e"})
"""Rooms that start the whole command again and again. They take turns, or a few tests would load every core."""


def group_tests(items: Iterable[pytest.Item]) -> None:
    """Say for ``--dist loadgroup`` which tests one process runs, in their order; the largest group is begun first.

    The rooms of processes are one group. The tests of faults are another, as they share a house of processes. Of
    all other tests each file is one, for the sake of its fixtures.
    """
    for item in items:
        parts = item.path.relative_to(TESTS).parts
        name = "processes" if parts[0] in OF_PROCESSES else "chaos" if parts[0] == "chaos" else "/".join(parts)
        item.add_marker(pytest.mark.xdist_group(name))


def share_servers(stack: ExitStack) -> None:
    """Start what does not answer yet, and tell the processes that are about to be started by their environment."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="safelight-test-"))
    os.environ["SAFELIGHT_TEST_POSTGRES"] = stack.enter_context(postgres_server(Path(folder)))
    os.environ["SAFELIGHT_TEST_RABBITMQ"] = stack.enter_context(rabbitmq_server())
