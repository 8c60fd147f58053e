"""The embedded PostgreSQL: owned by one process, attached to by others, alive after a kill -9 of its owner."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from jobstore.embedded import DataFolderInUseError, EmbeddedPostgres

OWNER = """
import os, sys
from pathlib import Path
import psycopg
from jobstore.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), exclusive=True)
with psycopg.connect(server.start()) as connection:
    connection.execute("CREATE TABLE kept (x int)")
print("ready", flush=True)
sys.stdin.read()
"""


def servers(folder: Path) -> list[int]:
    """Processes of a server on this folder."""
    found = psutil.process_iter(["pid", "cmdline"])
    return [
        one.info["pid"] for one in found if str(folder) in (one.info["cmdline"] or ()) and "-D" in one.info["cmdline"]
    ]


def test_one_process_owns_it_and_stops_it(place: Path) -> None:
    """Others attach; a second owner is refused in words."""
    folder = place / "postgres"
    owner, guest = EmbeddedPostgres(folder, exclusive=True), EmbeddedPostgres(folder)
    url = owner.start()
    assert guest.start() == url
    assert (owner.owner, guest.owner) == (True, False)
    with pytest.raises(DataFolderInUseError, match="SAFELIGHT_HOME"):
        EmbeddedPostgres(folder, exclusive=True, wait_s=0.2).start()
    guest.stop()
    assert servers(folder)
    owner.stop()
    owner.stop()
    assert servers(folder) == []


def test_after_kill_9_the_next_owner_has_all_data_and_stops_it(place: Path) -> None:
    """The server outlives its owner; the next takes it over."""
    folder = place / "postgres"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert servers(folder)
    with EmbeddedPostgres(folder, exclusive=True) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert servers(folder) == []
