"""Which errors are tried again, and when: the one table of it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jobstore.job import JobError


@dataclass(frozen=True, slots=True)
class Backoff:
    """The longest pause before attempt 2 in seconds; it doubles with every attempt up to ``longest_s``.

    The pause itself is drawn between half of that and the whole, so that jobs which failed together don't come back
    together.
    """

    first_s: float
    longest_s: float = 60.0

    def bound(self, attempts: int) -> float:
        """The longest pause after that many attempts, in seconds."""
        return float(min(self.first_s * 2 ** max(attempts - 1, 0), self.longest_s))

    def pause(self, attempts: int) -> float:
        """Seconds to wait after that many attempts."""
        return self.bound(attempts) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


# By the error's code. A lost lease is not in it: the store queues such a job at once, and counts its rescues apart.
RETRIED = {
    "render_failed": Backoff(1.0),
    "bad_output": Backoff(1.0),
    "out_of_memory": Backoff(5.0),
    "model_unavailable": Backoff(10.0),
    # A full disk or an unreachable bucket lasts longer than three quick tries, and hits every job alike.
    "outputs_unavailable": Backoff(15.0, longest_s=300.0),
    # What a remote provider answers 429 or 5xx to.
    "provider_busy": Backoff(5.0, longest_s=300.0),
    "provider_unreachable": Backoff(5.0, longest_s=300.0),
}

# Another try of a late or impossible request would end alike, and the same seed gives the same flagged picture.
FINAL = frozenset(
    {"deadline_exceeded", "invalid_request", "content_filtered", "adapter_unusable", "provider_refused", "canceled"}
)


def retry_in_s(error: JobError, attempts: int) -> float | None:
    """Seconds until the job is tried again after that many attempts; None where it is final."""
    backoff = RETRIED.get(error.code)
    return None if backoff is None else backoff.pause(attempts)
