"""A plugin for the older release's pytest: its databases begin with the schema of this release.

It is loaded before that suite's own fixtures, which then find nothing left to migrate.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import jobstore
from jobstore.sqlite.database import Database
from tests.services import postgres

_TEMPLATE = os.environ["NEWER_SCHEMA"]
_FILE = Path(os.environ["NEWER_SCHEMA_FILE"])
_fresh = postgres.fresh_database
_open = Database.open

if Path(jobstore.__file__ or "").parents[1] != Path.cwd():
    raise RuntimeError(f"this is not the older release's code: {jobstore.__file__}")


def _fresh_of_newer(
    server: str, template: str | None = None, drop: Callable[[str], object] | None = None
) -> AbstractContextManager[str]:
    return _fresh(server, template or _TEMPLATE, drop)


async def _open_newer(self: Database) -> None:
    if not self._path.exists():
        self._path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_FILE, self._path)
    await _open(self)


postgres.fresh_database = _fresh_of_newer  # type: ignore[assignment]
Database.open = _open_newer  # type: ignore[method-assign]
