"""The messages that REST has no struct for: what stands in its paths, queries and events."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from api.schemas import JobView, PreviewView, ProgressView
from jobstore.job import JobError


class GetRequest(Struct, frozen=True, kw_only=True):
    """Which job to read."""

    id: UUID


class CancelRequest(Struct, frozen=True, kw_only=True):
    """Which job to cancel."""

    id: UUID


class WatchRequest(Struct, frozen=True, kw_only=True):
    """Which job to watch; with ``last_event_id`` only what came after that event."""

    id: UUID
    last_event_id: int | None = None


class ListModelsRequest(Struct, frozen=True, kw_only=True):
    """Nothing to choose: the models that the key may use."""


class StateChange(Struct, frozen=True, kw_only=True):
    """A change of state; ``details`` is whatever else it has to tell."""

    state: str
    at: datetime
    attempt: int | None = None
    reason: str | None = None
    error: JobError | None = None
    details: dict[str, Any] = {}


class WatchEvent(Struct, frozen=True, kw_only=True):
    """An event of a job, and the one field that ``event`` names: ``state``, ``progress``, ``preview``, or ``done`` with
    the whole job. ``resync`` says that a slow reader missed progress. Events that are kept have an ``id``."""

    event: str
    id: int | None = None
    state: StateChange | None = None
    progress: ProgressView | None = None
    preview: PreviewView | None = None
    done: JobView | None = None
