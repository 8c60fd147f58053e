"""Where the LoRA adapters of the settings lie, and which revision of them it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from safelight.config.digest import file_revision
from safelight.config.errors import ConfigError
from safelight.config.settings import AdapterSettings

_SUFFIX = ".safetensors"


def located_adapters(adapters: Mapping[str, AdapterSettings], base: Path, table: str) -> dict[str, AdapterSettings]:
    """The adapters of one model's ``table``, each local one with its file's whole path and a revision.

    Paths are relative to ``base``. What is neither a file nor a folder there is a hub id. Raises ConfigError.
    """
    return {name: _located(adapter, base, f"{table[:-1]}.adapters.{name}]") for name, adapter in adapters.items()}


def _located(adapter: AdapterSettings, base: Path, table: str) -> AdapterSettings:
    place = base / Path(adapter.path).expanduser()
    if place.is_dir():
        place = _in_folder(place, adapter.file, table)
    elif not place.is_file():
        if adapter.path.startswith((".", "/", "~")) or adapter.path.endswith(_SUFFIX):
            raise ConfigError(f"{table} path: there is no file or folder {place}")
        return msgspec.structs.replace(adapter, revision=adapter.revision or "main")
    if place.suffix != _SUFFIX:
        raise ConfigError(f"{table} path: {place} is not a {_SUFFIX} file")
    path, revision = str(place.resolve()), adapter.revision or file_revision(place)
    return msgspec.structs.replace(adapter, path=path, file=None, revision=revision)


def _in_folder(folder: Path, file: str | None, table: str) -> Path:
    if file is not None:
        if not (folder / file).is_file():
            raise ConfigError(f"{table} file: there is no {file} in {folder}")
        return folder / file
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    if len(found) != 1:
        names = f"{len(found)} {_SUFFIX} files: name one with  file = " if found else f"no {_SUFFIX} file"
        raise ConfigError(f"{table} path: {folder} holds {names}")
    return found[0]
