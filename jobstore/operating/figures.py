"""How everything stands, in numbers of recent windows."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from msgspec import Struct


class Minute(Struct, frozen=True, kw_only=True):
    """How many jobs ended in the minute that begins at ``at``; ``failed`` counts the dead ones too."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0

    @property
    def finished(self) -> int:
        """All that ended."""
        return self.succeeded + self.failed + self.canceled


class Cost(Struct, frozen=True, kw_only=True):
    """What was charged, and the device time that it took, in one currency."""

    currency: str
    charged: Decimal
    gpu_seconds: Decimal


class Figures(Struct, frozen=True, kw_only=True):
    """Numbers of one moment, ``at``, by the store's clock.

    ``minutes`` are the last 60, oldest first, the one under way last. ``hits`` and ``joined`` are how many jobs of the
    last hour were answered without a render of their own, ``rendered`` how many were not. ``failed`` and ``dead`` are
    letters of the last 24 hours, each counted up to 10,000; ``letter_at`` is the end of the newest. ``since`` is
    midnight in the zone that was asked for, and ``costs`` what was charged from then on.
    """

    at: datetime
    minutes: tuple[Minute, ...]
    hits: int
    joined: int
    rendered: int
    failed: int
    dead: int
    letter_at: datetime | None
    since: datetime
    costs: tuple[Cost, ...]

    @property
    def success_rate(self) -> float | None:
        """The share of the last hour's ends, cancels aside, that had pictures; None without any."""
        succeeded, failed = (sum(getattr(one, name) for one in self.minutes) for name in ("succeeded", "failed"))
        return succeeded / (succeeded + failed) if succeeded + failed else None

    @property
    def cache_share(self) -> float | None:
        """The share of the last hour's pictures that needed no render of their own; None without any."""
        spared = self.hits + self.joined
        return spared / (spared + self.rendered) if spared + self.rendered else None
