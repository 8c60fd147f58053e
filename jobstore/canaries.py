"""Canaries: a model that takes a share of another's jobs, and how both have done lately."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from jobstore.audit import Actor


class CanaryShare(Struct, frozen=True, kw_only=True):
    """What an operator said of the canary ``model``: it takes ``share`` (0 to 1) of the jobs."""

    model: str
    share: float
    changed_at: datetime
    changed_by: str


class ModelFigures(Struct, frozen=True, kw_only=True):
    """A model's renders that ended in a window of time; what the cache answered is not among them.

    ``failed`` counts attempts that failed or were lost with their worker. ``p50_s`` and ``p90_s`` are seconds from when
    jobs were wanted to their pictures, None without any. ``gpu_seconds`` and ``charged`` are of all attempts.
    """

    model: str
    succeeded: int
    failed: int
    pictures: int
    gpu_seconds: Decimal
    charged: Decimal
    p50_s: float | None
    p90_s: float | None

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that brought pictures; None without any."""
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None

    @property
    def cost_per_picture(self) -> Decimal | None:
        """What was charged for a picture on the average; None without any."""
        return self.charged / self.pictures if self.pictures else None

    @property
    def gpu_seconds_per_picture(self) -> float | None:
        """Device time for a picture on the average, failed attempts' too; None without any."""
        return float(self.gpu_seconds) / self.pictures if self.pictures else None


class CanaryStore(Protocol):
    """What every job store knows of canaries. ``tests/contract/test_canaries.py`` puts it to each."""

    async def canary_shares(self) -> tuple[CanaryShare, ...]:
        """All that operators have said, by model."""

    async def share_canary(self, model: str, share: float, action: str, by: Actor) -> CanaryShare:
        """Let the canary take that share from now on, audited as ``action`` in the same transaction."""

    async def model_figures(self, models: Sequence[str], window_s: float, currency: str) -> tuple[ModelFigures, ...]:
        """How these models did in the last ``window_s`` seconds, by name; those without any render are left out.

        Raises StoreBusyError where it gets no turn among the slow reads.
        """
