"""Carries progress and previews from workers to the API's processes: inside one process, or over RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from actors.fanout import FanoutListener, FanoutPublisher
from actors.latest import Latest, subject_of
from actors.listeners import Listener, Listeners
from actors.threads import LazyThread
from jobstore.live import Message, ProgressChannel


class ClosableChannel(ProgressChannel, Protocol):
    """A progress channel whose threads can be ended."""

    def close(self) -> None:
        """End the channel's threads; what waits is dropped."""


def make_progress_channel(broker_url: str) -> ClosableChannel:
    """The channel that goes with a broker URL: ``memory`` or ``amqp://…``. Threads start at the first use."""
    return MemoryProgress() if broker_url == "memory" else RabbitProgress(broker_url)


class MemoryProgress:
    """Progress inside one process; listeners are called from a thread of its own."""

    def __init__(self) -> None:
        self._listeners = Listeners()
        self._waiting: Latest[Message] = Latest()
        self._thread = LazyThread("progress", self._run)

    def publish(self, message: Message) -> None:
        """Send to all listeners. Returns at once, from any thread."""
        self._waiting.put(subject_of(message), message)
        self._thread.ensure()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` for every message; the result ends it."""
        return self._listeners.add(listener)

    def close(self) -> None:
        """End the thread."""
        self._waiting.close()
        self._thread.join()

    def _run(self) -> None:
        while not self._waiting.closed:
            message = self._waiting.get(timeout=60)
            if message is not None:
                self._listeners.tell(message)


class RabbitProgress:
    """Progress over a transient fanout exchange of RabbitMQ, which every API process listens to."""

    def __init__(self, url: str) -> None:
        self._listeners = Listeners()
        self._waiting: Latest[Message] = Latest()
        self._publisher = FanoutPublisher(url, self._waiting)
        self._listener = FanoutListener(url, self._listeners.tell)
        self._publishing = LazyThread("progress-publisher", self._publisher.run)
        self._listening = LazyThread("progress-listener", self._listener.run)

    def publish(self, message: Message) -> None:
        """Send to all listeners of all processes. Returns at once, from any thread."""
        self._waiting.put(subject_of(message), message)
        self._publishing.ensure()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` for every message; the result ends it."""
        remove = self._listeners.add(listener)
        self._listening.ensure()
        return remove

    def wait_listening(self, timeout: float) -> bool:
        """Wait until messages published from now on arrive; False after ``timeout`` seconds."""
        return self._listener.bound.wait(timeout)

    def close(self) -> None:
        """End the threads and their connections."""
        self._waiting.close()
        self._listener.stop()
        self._publishing.join()
        self._listening.join()
