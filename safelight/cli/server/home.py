"""The data folder."""

from __future__ import annotations

from pathlib import Path

from safelight.cli.exits import StartError


def make_home(home: str) -> Path:
    """The data folder, made if need be, for this user alone. Raises StartError."""
    folder = Path(home)
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, mode=0o700)
        (folder / "outputs").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"can't make the data folder {folder}: {error.strerror}",
            "set SAFELIGHT_HOME to a folder that can be written",
        ) from error
    return folder
