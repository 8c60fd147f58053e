"""Measured knees, kept in a file: a model is measured once on a kind of device."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from actors.engine.compiled.knee import Knee, Timing

_log = structlog.get_logger(__name__)

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KneeKey:
    """What a knee depends on. ``size`` is ``WxH`` in pixels, ``device`` its label, ``mode`` how passes are run."""

    model: str
    revision: str
    dtype: str
    size: str
    device: str
    mode: str
    guided: bool = False


class Knees:
    """Knees by key, in a JSON file that several processes may share: the last to write a key wins."""

    def __init__(self, path: Path) -> None:
        """The file and its folder are made by the first ``keep``."""
        self._path = path
        self._knees = _read(path)

    def get(self, key: KneeKey) -> Knee | None:
        """The knee of that key; None where it has not been measured."""
        return self._knees.get(key)

    def limit(self, key: KneeKey) -> int | None:
        """How many rows are worth stepping together; None where it has not been measured."""
        knee = self._knees.get(key)
        return None if knee is None else knee.rows

    def keep(self, key: KneeKey, knee: Knee) -> None:
        """Write it down. Raises OSError where the file can't be written."""
        self._knees = {**_read(self._path), key: knee}
        _write(self._path, self._knees)


def _read(path: Path) -> dict[KneeKey, Knee]:
    """What the file holds; nothing where it isn't there, is broken or of another version."""
    try:
        found = msgspec.json.decode(path.read_bytes())
        if found["version"] != _VERSION:
            return {}
        return dict(_entry(item) for item in found["knees"])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        _log.warning("measured batch sizes can't be read", action="engine.knees_unreadable", error=str(error))
        return {}


def _entry(item: Mapping[str, Any]) -> tuple[KneeKey, Knee]:
    timings = tuple(Timing(int(rows), float(seconds)) for rows, seconds in item["timings"])
    rows = int(item["rows"])
    if rows < 1:
        raise ValueError(f"a knee at {rows} rows")
    return KneeKey(**item["key"]), Knee(rows, timings, bool(item["full"]))


def _write(path: Path, knees: Mapping[KneeKey, Knee]) -> None:
    items = [
        {
            "key": asdict(key),
            "rows": knee.rows,
            "full": knee.full,
            "timings": [[timing.rows, timing.seconds] for timing in knee.timings],
        }
        for key, knee in knees.items()
    ]
    data = msgspec.json.format(msgspec.json.encode({"version": _VERSION, "knees": items}))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written whole beside it and then renamed: a reader sees the old file or the new one.
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
