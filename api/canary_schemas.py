"""Canaries as operators see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct


class ShareRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which share of the model's jobs the canary is to take, from 0 to 1."""

    share: Annotated[float, Meta(ge=0, le=1)]


class ModelFiguresView(Struct, frozen=True, kw_only=True):
    """A model's renders in a window of time; what the cache answered is left out.

    ``failed`` counts attempts that failed or were lost. ``p50_s`` and ``p90_s`` are seconds from when jobs were wanted
    to their pictures. What can't be told without renders is null.
    """

    succeeded: int
    failed: int
    success_rate: float | None
    p50_s: float | None
    p90_s: float | None
    pictures: int
    cost_per_picture: str | None
    gpu_seconds_per_picture: float | None


class ComparedView(Struct, frozen=True, kw_only=True):
    """A canary beside the model that it is one of."""

    canary: ModelFiguresView
    stable: ModelFiguresView


class CanaryView(Struct, frozen=True, kw_only=True):
    """A canary. ``share`` is in force, ``configured`` what the settings say; ``changed_at`` and ``changed_by`` tell
    when and by whom it was last made another, null where nobody did. Costs are in ``currency``."""

    name: str
    object: Literal["canary"] = "canary"
    canary_of: str
    revision: str
    stable_revision: str
    lane: str
    share: float
    configured: float
    changed_at: datetime | None
    changed_by: str | None
    currency: str
    hour: ComparedView
    day: ComparedView


class CanaryList(Struct, frozen=True, kw_only=True):
    """The canaries of the settings."""

    object: Literal["list"] = "list"
    data: tuple[CanaryView, ...]
