"""What a worker tells of itself with each beat, and how workers stand."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

MODELS_TOLD = 32
"""How many loaded models a report names at most."""

WorkerState = Literal["serving", "draining", "drained", "silent"]
"""A worker is silent once its lease ran out without a beat; drained when it was asked to drain and holds no job."""


class WorkerReport(Struct, frozen=True, kw_only=True):
    """What a worker tells of itself: at most a few hundred bytes.

    Memory is the device's, in bytes, None where it can't be told. ``models`` are those that are loaded.
    ``occupancy`` is the share of the last minute that the device was busy, from 0 to 1.
    """

    version: str = ""
    slots: int = 0
    held: int = 0
    memory_used: int | None = None
    memory_total: int | None = None
    models: tuple[str, ...] = ()
    occupancy: float | None = None


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """A worker as the store knows it. ``held`` counts the jobs that the store has under its leases.

    ``report`` is None until its first beat.
    """

    id: UUID
    host: str
    pid: int
    device: str
    lanes: tuple[str, ...]
    state: WorkerState
    alive: bool
    held: int
    started_at: datetime
    seen_at: datetime
    silent_s: float
    drain_asked_at: datetime | None = None
    report: WorkerReport | None = None


def to_status(row: dict[str, Any], now: datetime) -> WorkerStatus:
    """The status of a worker's row, to which ``held`` is added."""
    silent_s = max((now - row["seen_at"]).total_seconds(), 0.0)
    alive = silent_s <= row["lease_s"]
    return WorkerStatus(
        id=row["id"],
        host=row["host"],
        pid=row["pid"],
        device=row["device"],
        lanes=tuple(row["lanes"]),
        state=_state(alive=alive, draining=row["drain_asked_at"] is not None, held=row["held"]),
        alive=alive,
        held=row["held"],
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        silent_s=silent_s,
        drain_asked_at=row["drain_asked_at"],
        report=None if row["report"] is None else msgspec.convert(row["report"], WorkerReport),
    )


def _state(*, alive: bool, draining: bool, held: int) -> WorkerState:
    if not alive:
        return "silent"
    if draining:
        return "draining" if held else "drained"
    return "serving"
