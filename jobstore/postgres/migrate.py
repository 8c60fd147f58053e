"""Bringing a PostgreSQL schema up to date."""

from __future__ import annotations

from jobstore.migrating import Migration, migrations, missing, require_none
from jobstore.postgres.columns import Connection

KNOWN = migrations("jobstore.postgres")

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


async def migrate(connection: Connection, known: tuple[Migration, ...] = KNOWN) -> tuple[str, ...]:
    """Apply what is missing of ``known``, all in one transaction; the names of those applied. Raises MigrationError."""
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    await connection.execute(_TABLE)
    lacking = missing(await _applied(connection), known)
    for migration in lacking:
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO schema_migration (version, name, checksum) VALUES (%s, %s, %s)",
            [migration.version, migration.name, migration.checksum],
        )
    return tuple(migration.name for migration in lacking)


async def check_current(connection: Connection, known: tuple[Migration, ...] = KNOWN) -> None:
    """Raise MigrationError unless exactly ``known`` is applied."""
    exists = await (await connection.execute("SELECT to_regclass('schema_migration') AS name")).fetchone()
    applied = await _applied(connection) if exists and exists["name"] else {}
    require_none(missing(applied, known))


async def _applied(connection: Connection) -> dict[int, tuple[str, str]]:
    cursor = await connection.execute("SELECT version, name, checksum FROM schema_migration")
    return {row["version"]: (row["name"], row["checksum"]) async for row in cursor}
