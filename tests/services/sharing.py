"""Tests in several processes at a time (pytest-xdist): which stay together, and servers that all of them share."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.services.postgres import postgres_server
from tests.services.rabbitmq import rabbitmq_server

OF_PROCESSES = frozenset({"cli", "e2e"})
"""Rooms that start the whole command again and again. They take turns, or a few tests would load every core."""
TOGETHER = frozenset({"browser", "chaos"})
"""Rooms whose tests share what is slow to start: a browser, a house of processes."""


class InGroups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process a group of tests at a time.

    The rooms of processes are one group; so is each room whose tests share what is slow to start. Of all other
    tests each file is one, for the sake of its fixtures. (``--dist loadgroup`` groups nothing with
    pytest 9.2, which keeps no names that pytest-xdist 3.8 could change.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test."""
    room = nodeid.removeprefix("tests/").split("/")[0]
    if room in TOGETHER:
        return room
    return "processes" if room in OF_PROCESSES else nodeid.split("::", maxsplit=1)[0]


def sort_tests(items: list[pytest.Item]) -> None:
    """The long groups first, or all would wait for them at the end."""
    items.sort(key=lambda item: group_of(item.nodeid) not in (*TOGETHER, "processes"))


def share_servers(stack: ExitStack) -> None:
    """Start what does not answer yet, and tell the processes that are about to be started by their environment."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="safelight-test-"))
    os.environ["SAFELIGHT_TEST_POSTGRES"] = stack.enter_context(postgres_server(Path(folder)))
    os.environ["SAFELIGHT_TEST_RABBITMQ"] = stack.enter_context(rabbitmq_server())
