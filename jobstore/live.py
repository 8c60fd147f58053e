"""What passes between processes and is not kept: bells that wake workers, progress and previews that clients watch.

All are lossy by contract. A lost bell is rung again by the sweeper; a lost progress message is followed by the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from msgspec import Struct

WEBHOOKS_BELL = ":webhooks"
"""Rung like a lane (no lane has such a name): there may be deliveries of webhooks to try."""


class Bell(Protocol):
    """Wakes a worker of a lane."""

    def ring(self, lane: str) -> None:
        """Ask for one bell. Returns at once, from any thread; never raises because a broker is away."""

    @property
    def away(self) -> bool:
        """True while bells can't be rung, as far as the last try tells."""


class Progress(Struct, frozen=True, kw_only=True, tag_field="kind", tag="progress"):
    """How far a running job is: ``step`` of ``steps`` denoising steps; ``fraction`` of the whole job, under 1.

    ``attempt`` is the lease's token: every later attempt has a higher one (a job's count of attempts may fall again,
    when one is handed back).
    """

    job_id: UUID
    step: int
    steps: int
    fraction: float
    attempt: int = 0


class Preview(Struct, frozen=True, kw_only=True, tag_field="kind", tag="preview"):
    """A small approximate picture of image ``index`` of a running job, after ``step`` of ``steps`` denoising steps.

    ``image`` is a file of ``media_type``, some tens of KiB at most; ``attempt`` is as in Progress.
    """

    job_id: UUID
    attempt: int = 0
    index: int
    step: int
    steps: int
    image: bytes
    media_type: str


Message = Progress | Preview


class ProgressChannel(Protocol):
    """Carries progress and previews from workers to every API process."""

    def publish(self, message: Message) -> None:
        """Send to all listeners. Returns at once, from any thread; drops when there is no room."""

    def listen(self, listener: Callable[[Message], None]) -> Callable[[], None]:
        """Call ``listener`` for every message, from a thread of the channel's; the result ends it."""
