"""Bringing a SQLite schema up to date."""

from __future__ import annotations

from jobstore.migrating import migrations, missing, require_none
from jobstore.sqlite.database import Database

KNOWN = migrations("jobstore.sqlite")

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)
"""


async def migrate(database: Database) -> tuple[str, ...]:
    """Apply what is missing, inside the transaction under way; the names of those applied. Raises MigrationError."""
    await database.execute(_TABLE)
    lacking = missing(await _applied(database), KNOWN)
    for migration in lacking:
        await database.script(migration.sql)
        row = {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
        await database.insert("schema_migration", [row])
    return tuple(migration.name for migration in lacking)


async def check_current(database: Database) -> None:
    """Raise MigrationError unless exactly what is known is applied."""
    exists = await database.one("SELECT 1 FROM sqlite_master WHERE name = 'schema_migration'")
    require_none(missing(await _applied(database) if exists else {}, KNOWN))


async def _applied(database: Database) -> dict[int, tuple[str, str]]:
    rows = await database.every("SELECT version, name, checksum FROM schema_migration")
    return {row["version"]: (row["name"], row["checksum"]) for row in rows}
