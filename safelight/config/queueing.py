"""Settings of the queue: how much may wait, how many workers it should have, and how long what is over is kept."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from safelight.config.base import Base

Positive = Annotated[float, Meta(gt=0, le=31_536_000)]  # seconds, a year at most: beyond it dates overflow
Count = Annotated[int, Meta(ge=1)]
Days = Annotated[float, Meta(gt=0, le=36_500)] | Literal["never"]


class LimitSettings(Base, frozen=True, kw_only=True):
    """How many jobs may wait: in all, in one lane, and of one API key. What is beyond is refused (429)."""

    max_queued: Count = 100_000
    max_queued_per_lane: Count = 50_000
    max_queued_per_key: Count = 10_000


class ScalingSettings(Base, frozen=True, kw_only=True):
    """How many workers a lane should have, as told to autoscalers: none of its jobs is to wait beyond ``target_s``."""

    target_s: Positive = 60.0
    min_workers: Annotated[int, Meta(ge=0, le=10_000)] = 1
    max_workers: Annotated[int, Meta(ge=1, le=10_000)] = 100

    def __post_init__(self) -> None:
        """Raise ValueError where the least is more than the most."""
        if self.min_workers > self.max_workers:
            raise ValueError(f"min_workers is {self.min_workers}, more than max_workers, {self.max_workers}")


class RetentionSettings(Base, frozen=True, kw_only=True):
    """How long what is over is kept, in days; ``never`` deletes nothing of that kind. Purged every ``every_s``."""

    jobs_days: Days = 90.0
    events_days: Days = 14.0
    outputs_days: Days = 30.0
    cache_days: Days = 30.0
    usage_days: Days = "never"
    deliveries_days: Days = 14.0
    every_s: Positive = 60.0

    @property
    def ages(self) -> dict[str, float | None]:
        """By kind, which is a setting without its ``_days``, the age to delete it at, in seconds."""
        days: dict[str, Days] = {
            "jobs": self.jobs_days,
            "events": self.events_days,
            "outputs": self.outputs_days,
            "cache": self.cache_days,
            "usage": self.usage_days,
            "deliveries": self.deliveries_days,
        }
        return {kind: None if limit == "never" else limit * 86_400.0 for kind, limit in days.items()}
