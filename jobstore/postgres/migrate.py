"""Bringing a PostgreSQL schema up to date."""

from __future__ import annotations

from jobstore.migrating import Applied, Migration, Standing, applied_of, due, migrations, standing
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
# Tables of earlier releases lack it. Asked for only when something is applied, as even IF NOT EXISTS locks readers out.
_NEEDS = "ALTER TABLE schema_migration ADD COLUMN IF NOT EXISTS needs integer"


async def migrate(
    connection: Connection, known: tuple[Migration, ...] = KNOWN, *, contract: bool = False
) -> tuple[str, ...]:
    """Apply what is due of ``known``, all in one transaction; the names of those applied. Raises MigrationError."""
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    await connection.execute(_TABLE)
    lacking = due(await _applied(connection), known, contract=contract)
    if lacking:
        await connection.execute(_NEEDS)
    for migration in lacking:
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO schema_migration (version, name, checksum, needs) VALUES (%s, %s, %s, %s)",
            [migration.version, migration.name, migration.checksum, migration.needs],
        )
    return tuple(migration.name for migration in lacking)


async def read_standing(connection: Connection, known: tuple[Migration, ...] = KNOWN) -> Standing:
    """How the schema and ``known`` stand. Raises MigrationError where they don't go together."""
    exists = await (await connection.execute("SELECT to_regclass('schema_migration') AS name")).fetchone()
    return standing(await _applied(connection) if exists and exists["name"] else {}, known)


async def _applied(connection: Connection) -> dict[int, Applied]:
    return applied_of(await (await connection.execute("SELECT * FROM schema_migration")).fetchall())
