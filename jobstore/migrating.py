"""Migrations: numbered files, each applied once, its checksum kept, and which releases may work on what they make.

A migration says in its comments what it asks of programs. ``-- needs: 9`` means that code whose newest migration is 9
still works once this one is applied: it expands, by what older code does not see. Without such a line no older code
does. ``-- contract`` marks one that takes away what only older code uses: this release works before and after it, so it
waits until it is asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jobstore.errors import MigrationError

_NEEDS = re.compile(r"^-- needs: ([0-9]+)$", re.MULTILINE)
_CONTRACT = re.compile(r"^-- contract$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that a database has. ``needs`` is the oldest schema whose code works on it; None: its own."""

    version: int
    name: str
    checksum: str
    needs: int | None


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

    @property
    def needs(self) -> int:
        """The oldest schema whose code works once this is applied."""
        found = _NEEDS.search(self.sql)
        return int(found[1]) if found else self.version

    @property
    def contract(self) -> bool:
        """True where this release works without it too."""
        return bool(_CONTRACT.search(self.sql))


@dataclass(frozen=True, slots=True)
class Standing:
    """A schema that this program works on, or will once ``lacking`` is applied; names of migrations.

    ``held`` take away what older programs need, and wait until they are asked for. ``ahead`` are those of newer
    releases.
    """

    lacking: tuple[str, ...]
    held: tuple[str, ...]
    ahead: tuple[str, ...]


def migrations(package: str) -> tuple[Migration, ...]:
    """All migrations of a store's package, in order."""
    found = sorted(
        (file for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return tuple(
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in found
    )


def applied_of(rows: Sequence[Mapping[str, Any]]) -> dict[int, Applied]:
    """What a database has, by number. Its table may be of a release that noted no ``needs``."""
    return {row["version"]: Applied(row["version"], row["name"], row["checksum"], row.get("needs")) for row in rows}


def due(applied: Mapping[int, Applied], known: Sequence[Migration], *, contract: bool) -> list[Migration]:
    """What is to be applied now. The last ones that contract only with ``contract``, or where there is nothing yet.

    Raises MigrationError as ``standing`` does.
    """
    found = standing(applied, known)
    names = {*found.lacking, *(found.held if contract or not applied else ())}
    return [migration for migration in known if migration.name in names]


def standing(applied: Mapping[int, Applied], known: Sequence[Migration]) -> Standing:
    """How ``known`` and a database stand.

    Raises MigrationError on a changed checksum, and on a schema that this program is too old for.
    """
    ours = {migration.version: migration for migration in known}
    newest = max(ours, default=0)
    ahead = []
    for version, found in sorted(applied.items()):
        if version not in ours:
            _require_open(found, newest)
            ahead.append(found.name)
        elif ours[version].checksum != found.checksum:
            raise MigrationError(f"migration {found.name} was changed after it was applied; add a new one instead")
    wanting = [migration for migration in known if migration.version not in applied]
    held: list[str] = []
    while wanting and wanting[-1].contract:
        held.insert(0, wanting.pop().name)
    if ahead and wanting:
        raise MigrationError(
            f"the database has {ahead[0]}, which this program doesn't know, but lacks {wanting[0].name}: "
            "it was not made by releases of one line"
        )
    return Standing(tuple(migration.name for migration in wanting), tuple(held), tuple(ahead))


def require_current(found: Standing) -> None:
    """Raise MigrationError where a database lacks migrations."""
    if found.lacking:
        raise MigrationError(f"the schema lacks {', '.join(found.lacking)}: run `safelight migrate`")


def _require_open(found: Applied, newest: int) -> None:
    """Raise MigrationError unless code of the schema ``newest`` works on that migration."""
    needs = found.version if found.needs is None else found.needs
    if needs > newest:
        raise MigrationError(
            f"the database is newer than this program: it has {found.name}, which needs code of schema {needs} or "
            f"newer, and this is of schema {newest}; install a newer Safelight"
        )
