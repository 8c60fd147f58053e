"""A revision for a model folder or an adapter's file that has none: a digest of what lies in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

_WHOLE_BYTES = 64 * 1024 * 1024
_SAMPLE_BYTES = 1024 * 1024


def model_revision(folder: Path) -> str:
    """A short hex digest over all files below ``folder``: names, sizes and content.

    Files over 64 MiB count by size, first and last MiB, and time of change, so that a start stays fast with
    weights of many gigabytes. Hidden files and notes (``*.md``) don't count: they change no pixel.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        relative = file.relative_to(folder)
        if file.suffix == ".md" or any(part.startswith(".") for part in relative.parts):
            continue
        digest.update(f"{relative.as_posix()}\0".encode())
        _add(digest, file)
    return digest.hexdigest()[:16]


def file_revision(file: Path) -> str:
    """A short hex digest of one file's size and content, by the same rule for large files."""
    digest = hashlib.sha256()
    _add(digest, file)
    return digest.hexdigest()[:16]


def _add(digest: hashlib._Hash, file: Path) -> None:
    status = file.stat()
    digest.update(f"{status.st_size}\0".encode())
    with file.open("rb") as stream:
        if status.st_size <= _WHOLE_BYTES:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
        else:
            digest.update(stream.read(_SAMPLE_BYTES))
            stream.seek(-_SAMPLE_BYTES, 2)
            digest.update(stream.read())
            digest.update(str(status.st_mtime_ns).encode())
