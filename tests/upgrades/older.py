"""An older release of this repository, taken from its history."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.processes import REPOSITORY

_PINNED = Path(__file__).with_name("older.txt")


@dataclass(frozen=True, slots=True)
class Older:
    """Its files lie in ``folder``."""

    folder: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """``python -m COMMAND`` with its code."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=kept | {"OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def newest(self, store: str) -> int:
        """The version of a store's newest migration in it."""
        return max(int(file.name[:4]) for file in (self.folder / "jobstore" / store / "migrations").glob("*.sql"))


def unpack(folder: Path) -> Older:
    """The release that older.txt names, unpacked into ``folder``."""
    commit = _PINNED.read_text().strip()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=REPOSITORY, env=_plain(os.environ), capture_output=True, timeout=60, check=False
    )
    assert archive.returncode == 0, (
        f"{_PINNED.name} names {commit}, which this clone's history lacks: get it with `git fetch --unshallow`\n"
        f"{archive.stderr.decode(errors='replace')}"
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, timeout=60, check=True)
    return Older(folder)


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what a hook of git's sets for the repository that it runs in."""
    return {name: value for name, value in environment.items() if not name.startswith("GIT_")}
