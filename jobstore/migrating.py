"""Migrations: numbered files, each applied once, its checksum kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from jobstore.errors import MigrationError

Applied = Mapping[int, tuple[str, str]]
"""Name and checksum of the migrations that a database has, by number."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A file ``NNNN_name.sql`` of a store's package."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, hex."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations(package: str) -> tuple[Migration, ...]:
    """All migrations of a store's package, in order."""
    found = sorted(
        (file for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return tuple(
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in found
    )


def missing(applied: Applied, known: tuple[Migration, ...]) -> list[Migration]:
    """Those of ``known`` that a database lacks. Raises MigrationError on a changed checksum or a newer schema."""
    ours = {migration.version: migration for migration in known}
    for version, (name, checksum) in sorted(applied.items()):
        if version not in ours:
            raise MigrationError(f"the database is newer than this program: it has {name}; install a newer Safelight")
        if ours[version].checksum != checksum:
            raise MigrationError(f"migration {name} was changed after it was applied; add a new one instead")
    return [migration for migration in known if migration.version not in applied]


def require_none(lacking: list[Migration]) -> None:
    """Raise MigrationError where a database lacks migrations."""
    if lacking:
        names = ", ".join(migration.name for migration in lacking)
        raise MigrationError(f"the schema lacks {names}: run `safelight migrate`")
