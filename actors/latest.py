"""What waits to be sent: of each thing that is told about, the latest alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from jobstore.live import Message, Preview

T = TypeVar("T")


def subject_of(message: Message) -> Hashable:
    """What a message is about: a later one makes it worthless."""
    return message.job_id, message.index if isinstance(message, Preview) else None


class Latest(Generic[T]):
    """A bounded queue that keeps the latest of each key: whoever is slow skips, and never falls behind."""

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._latest: OrderedDict[Hashable, T] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, key: Hashable, item: T) -> None:
        """Replace what waits under that key; without room what waits longest is dropped."""
        with self._changed:
            self._latest[key] = item
            if len(self._latest) > self._capacity:
                self._latest.popitem(last=False)
            self._changed.notify()

    def get(self, timeout: float) -> T | None:
        """What waits longest; None after ``timeout`` seconds or once closed."""
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
