"""The store of the settings: a URL as it stands, or the embedded PostgreSQL of the data folder."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg

from jobstore.embedded import EmbeddedPostgres
from jobstore.errors import JobStoreError
from jobstore.protocol import JobStore
from jobstore.registry import open_store
from safelight.cli.exits import CommandError, UnreachableError
from safelight.cli.server.home import make_home
from safelight.cli.server.reasons import advice_for, sentence_of
from safelight.config import Settings

T = TypeVar("T")

POSTGRES = "postgres"


def embedded_postgres(home: Path, *, exclusive: bool = False) -> EmbeddedPostgres:
    """The PostgreSQL of a data folder, not yet started."""
    return EmbeddedPostgres(home / POSTGRES, exclusive=exclusive)


@contextmanager
def store_url(settings: Settings) -> Iterator[str]:
    """The store's URL; the embedded server runs meanwhile, or is attached to where ``safelight up`` runs."""
    if settings.store != "embedded":
        yield settings.store
        return
    try:
        with embedded_postgres(make_home(settings.home)) as url:
            yield url
    except JobStoreError as error:
        raise CommandError(str(error)) from error


def with_store(settings: Settings, work: Callable[[JobStore], Awaitable[T]]) -> T:
    """Run ``work`` on the open store of the settings. Raises UnreachableError, CommandError."""
    with store_url(settings) as url:
        return asyncio.run(on_store(url, work))


async def on_store(url: str, work: Callable[[JobStore], Awaitable[T]]) -> T:
    """Run ``work`` on the open store of ``url``. Raises UnreachableError, CommandError."""
    try:
        store = open_store(url)
    except JobStoreError as error:
        raise CommandError(str(error)) from error
    try:
        await store.open()
    except Exception as error:  # each driver has errors of its own
        await store.close()
        why = sentence_of(error, url)
        raise UnreachableError(f"the store can't be reached: {why}", advice_for(why, url)) from error
    try:
        return await work(store)
    except JobStoreError as error:
        raise CommandError(str(error)) from error
    except (psycopg.Error, sqlite3.Error) as error:
        why = sentence_of(error, url)
        raise CommandError(f"the store refuses: {why}", advice_for(why, url)) from error
    finally:
        await store.close()
