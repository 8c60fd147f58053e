"""How long what is over is kept."""

from __future__ import annotations

from msgspec import Struct

DOOMED_GRACE_S = 600.0
"""Seconds from a picture's doom to its end: by then no submit that found it in the cache is under way."""


class Ages(Struct, frozen=True, kw_only=True):
    """Ages in seconds, each counted from the end of what it is about; None keeps for ever.

    ``jobs``: finished jobs with their events. ``events``: the events of any job. ``outputs``: pictures, by when they
    were given to a job. ``cache``: cache entries, by when they were last written. ``usage``: rows of the ledger.
    ``deliveries``: webhooks' deliveries that are over, by when they were written.
    """

    jobs: float | None = None
    events: float | None = None
    outputs: float | None = None
    cache: float | None = None
    usage: float | None = None
    deliveries: float | None = None


class Purged(Struct, frozen=True, kw_only=True):
    """How many of each kind were deleted, how many pictures were put down as doomed, how many jobs were put away."""

    jobs: int = 0
    events: int = 0
    pictures: int = 0
    cache: int = 0
    usage: int = 0
    deliveries: int = 0
    replays: int = 0
    archived: int = 0
    doomed: int = 0

    @property
    def most(self) -> int:
        """The largest of the counts: below the limit, nothing is left to purge for now."""
        return max(
            self.jobs, self.events, self.pictures, self.cache, self.usage, self.deliveries, self.replays, self.archived
        )
