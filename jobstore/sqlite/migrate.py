"""Bringing a SQLite schema up to date."""

from __future__ import annotations

from jobstore.migrating import Applied, Migration, Standing, applied_of, due, migrations, standing
from jobstore.sqlite.database import Database

KNOWN = migrations("jobstore.sqlite")

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)
"""
_HAS_NEEDS = "SELECT 1 FROM pragma_table_info('schema_migration') WHERE name = 'needs'"


async def migrate(
    database: Database, known: tuple[Migration, ...] = KNOWN, *, contract: bool = False
) -> tuple[str, ...]:
    """Apply what is due, inside the transaction under way; the names of those applied. Raises MigrationError."""
    await database.execute(_TABLE)
    lacking = due(await _applied(database), known, contract=contract)
    if lacking and await database.one(_HAS_NEEDS) is None:
        await database.execute("ALTER TABLE schema_migration ADD COLUMN needs INTEGER")
    for migration in lacking:
        await database.script(migration.sql)
        row = {"version": migration.version, "name": migration.name}
        row |= {"checksum": migration.checksum, "needs": migration.needs}
        await database.insert("schema_migration", [row])
    return tuple(migration.name for migration in lacking)


async def read_standing(database: Database, known: tuple[Migration, ...] = KNOWN) -> Standing:
    """How the schema and ``known`` stand. Raises MigrationError where they don't go together."""
    exists = await database.one("SELECT 1 FROM sqlite_master WHERE name = 'schema_migration'")
    return standing(await _applied(database) if exists else {}, known)


async def _applied(database: Database) -> dict[int, Applied]:
    return applied_of(await database.every("SELECT * FROM schema_migration"))
