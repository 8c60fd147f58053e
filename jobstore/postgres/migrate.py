"""Migrations: numbered files, each applied once, its checksum kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from jobstore.errors import MigrationError
from jobstore.postgres.rows import Connection

# One number for all processes that migrate: whoever comes second waits and finds everything done.
_LOCK = 0x5AFE_1164
_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migration (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A file ``NNNN_name.sql`` of this package."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, hex."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> tuple[Migration, ...]:
    """All migrations in order."""
    found = sorted(
        (file for file in (files("jobstore.postgres") / "migrations").iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return tuple(
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in found
    )


async def migrate(connection: Connection, known: tuple[Migration, ...]) -> tuple[str, ...]:
    """Apply what is missing of ``known``, all in one transaction; the names of those applied. Raises MigrationError."""
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    await connection.execute(_TABLE)
    applied = await _applied(connection)
    _check(applied, known)
    missing = [migration for migration in known if migration.version not in applied]
    for migration in missing:
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO schema_migration (version, name, checksum) VALUES (%s, %s, %s)",
            [migration.version, migration.name, migration.checksum],
        )
    return tuple(migration.name for migration in missing)


async def check_current(connection: Connection, known: tuple[Migration, ...]) -> None:
    """Raise MigrationError unless exactly ``known`` is applied."""
    exists = await (await connection.execute("SELECT to_regclass('schema_migration') AS name")).fetchone()
    applied = await _applied(connection) if exists and exists["name"] else {}
    _check(applied, known)
    missing = [migration.name for migration in known if migration.version not in applied]
    if missing:
        raise MigrationError(f"the schema lacks {', '.join(missing)}: run `safelight migrate`")


async def _applied(connection: Connection) -> dict[int, tuple[str, str]]:
    cursor = await connection.execute("SELECT version, name, checksum FROM schema_migration")
    return {row["version"]: (row["name"], row["checksum"]) async for row in cursor}


def _check(applied: dict[int, tuple[str, str]], known: tuple[Migration, ...]) -> None:
    ours = {migration.version: migration for migration in known}
    for version, (name, checksum) in sorted(applied.items()):
        if version not in ours:
            raise MigrationError(f"the database is newer than this program: it has {name}; install a newer Safelight")
        if ours[version].checksum != checksum:
            raise MigrationError(f"migration {name} was changed after it was applied; add a new one instead")
