"""PostgreSQL for the suite, and a fresh database for whoever asks."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from jobstore.embedded import EmbeddedPostgres

STANDARD = "postgresql://postgres@127.0.0.1:5432/postgres"


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """The URL of a server: SAFELIGHT_TEST_POSTGRES, the standard port, or one of the wheel's in ``folder``."""
    named = os.environ.get("SAFELIGHT_TEST_POSTGRES")
    if named:
        yield named
    elif answers(STANDARD):
        yield STANDARD
    else:
        with EmbeddedPostgres(folder / "postgres", exclusive=True) as url:
            yield url


def answers(url: str) -> bool:
    """True when a server lets us in."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def with_database(url: str, name: str) -> str:
    """The same server's URL for another database."""
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items() if key != "dbname"}
    place = "".join(f"{key}={value}&" for key, value in parts.items() if value)
    return f"postgresql:///{name}?{place.rstrip('&')}"


@contextmanager
def fresh_database(
    server: str, template: str | None = None, drop: Callable[[str], object] | None = None
) -> Iterator[str]:
    """The URL of a database made for the moment, as a copy of ``template`` where one is named.

    ``drop`` is told its name afterwards; without one it is dropped before this returns.
    """
    name = f"safelight_test_{uuid.uuid4().hex[:16]}"
    create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
    if template is not None:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create)
    try:
        yield with_database(server, name)
    finally:
        if drop is None:
            drop_database(server, name)
        else:
            drop(name)


def drop_database(server: str, name: str) -> None:
    """Drop it, whoever is in there. It waits for a checkpoint of the whole server: a second where much is written."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def dropping_behind(server: str) -> Iterator[Callable[[str], object]]:
    """What drops databases while tests go on. At the end all are gone, or the first error is raised."""
    drops: list[Future[None]] = []
    with ThreadPoolExecutor(1, "drops") as pool:
        yield lambda name: drops.append(pool.submit(drop_database, server, name))
    for drop in drops:
        drop.result()
