"""Which errors are tried again, and when: the one table of it."""

from __future__ import annotations

from dataclasses import dataclass

from jobstore.job import JobError


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before attempt 2 in seconds; it doubles with every attempt up to ``longest_s``."""

    first_s: float
    longest_s: float = 60.0

    def pause(self, attempts: int) -> float:
        """Seconds to wait after that many attempts."""
        return float(min(self.first_s * 2 ** max(attempts - 1, 0), self.longest_s))


# What is not in it is final: another try of a late or impossible request would end alike.
RETRIED = {
    "render_failed": Backoff(1.0),
    "bad_output": Backoff(1.0),
    "out_of_memory": Backoff(5.0),
    "model_unavailable": Backoff(10.0),
    "outputs_unavailable": Backoff(2.0),
}


def retry_in_s(error: JobError, attempts: int) -> float | None:
    """Seconds until the job is tried again after that many attempts; None where it is final."""
    backoff = RETRIED.get(error.code)
    return None if backoff is None else backoff.pause(attempts)
