"""What waits to be sent: of each job the latest progress alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from uuid import UUID

from jobstore.live import Progress


class LatestProgress:
    """A bounded queue that keeps the latest progress of each job: whoever is slow skips, and never falls behind."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._latest: OrderedDict[UUID, Progress] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, progress: Progress) -> None:
        """Replace what waits for that job; without room the job that waits longest is dropped."""
        with self._changed:
            self._latest[progress.job_id] = progress
            if len(self._latest) > self._capacity:
                self._latest.popitem(last=False)
            self._changed.notify()

    def get(self, timeout: float) -> Progress | None:
        """The job that waits longest; None after ``timeout`` seconds or once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest or self._closed, timeout)
            return self._latest.popitem(last=False)[1] if self._latest and not self._closed else None

    def close(self) -> None:
        """Wake whoever waits; nothing more comes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait_closed(self, timeout: float) -> bool:
        """Wait for the end, at most ``timeout`` seconds; whether it has come."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, timeout)

    @property
    def closed(self) -> bool:
        """True once nothing more comes."""
        return self._closed
