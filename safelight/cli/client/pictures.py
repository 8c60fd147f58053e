"""Saves the pictures of a job as files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from safelight.cli.client.http import Client, Job
from safelight.cli.exits import CommandError, RefusedError


def save_pictures(client: Client, job: Job, path: Path) -> list[Path]:
    """Write them to ``path`` (several: ``path`` with -1, -2… before its ending); where they lie, absolute.

    Raises CommandError when a file can't be written, and the client's errors.
    """
    saved = []
    for target, image in zip(targets(path, len(job["images"])), job["images"], strict=True):
        _write(target, client.picture(image["url"]))
        saved.append(target)
    return saved


def check_place(path: Path) -> None:
    """See that pictures can go to ``path`` before anything is rendered. Raises RefusedError."""
    place = path.expanduser().absolute()
    if not place.parent.is_dir():
        raise RefusedError(f"--out {path}: there is no folder {place.parent}", f"make it:  mkdir -p {place.parent}")
    if place.is_dir():
        raise RefusedError(f"--out {path} is a folder", "name a file in it")


def targets(path: Path, count: int) -> list[Path]:
    """One absolute file path a picture."""
    path = path.expanduser().absolute()
    if count == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, count + 1)]


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: a picture that is there already is only replaced by a complete one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as stream:
            stream.write(data)
        whole = Path(stream.name)
        whole.chmod(0o666 & ~_umask())  # a temporary file is its owner's alone; a picture is a file like others
        whole.replace(path)
    except OSError as error:
        raise CommandError(f"can't write {path}: {error.strerror or error}", "choose another place with -o") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
