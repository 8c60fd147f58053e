"""What passes between processes and is not kept: bells that wake workers, and progress that clients watch.

Both are lossy by contract. A lost bell is rung again by the sweeper; a lost progress message is followed by the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from msgspec import Struct


class Bell(Protocol):
    """Wakes a worker of a lane."""

    def ring(self, lane: str) -> None:
        """Ask for one bell. Returns at once, from any thread; never raises because a broker is away."""

    @property
    def away(self) -> bool:
        """True while bells can't be rung, as far as the last try tells."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a running job is: ``step`` of ``steps`` denoising steps; ``fraction`` of the whole job, under 1.

    ``attempt`` is the lease's token: every later attempt has a higher one (a job's count of attempts may fall again,
    when one is handed back).
    """

    job_id: UUID
    step: int
    steps: int
    fraction: float
    attempt: int = 0


class ProgressChannel(Protocol):
    """Carries progress from workers to every API process."""

    def publish(self, progress: Progress) -> None:
        """Send to all listeners. Returns at once, from any thread; drops when there is no room."""

    def listen(self, listener: Callable[[Progress], None]) -> Callable[[], None]:
        """Call ``listener`` for every message, from a thread of the channel's; the result ends it."""
