"""The thread beside the loop: it decodes and copies what is done while the next steps are under way."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

import structlog

_log = structlog.get_logger(__name__)

Work = Callable[[], None]


class Developer:
    """One thread that does what it is given: pictures and checkpoints in order, previews when nothing else waits.

    Of previews with one name only the latest is kept. Work must not raise; what does is logged.
    """

    def __init__(self, capacity: int = 16, on_progress: Callable[[], None] = lambda: None) -> None:
        """``capacity`` is how much work may wait before ``put`` waits; ``on_progress`` is called after each piece."""
        self._capacity = capacity
        self._on_progress = on_progress
        self._work: deque[Work] = deque()
        self._previews: OrderedDict[Hashable, Work] = OrderedDict()
        self._since: float | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="engine-developer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    @property
    def working_s(self) -> float:
        """Seconds since the piece of work that is being done was begun; 0 while there is none."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def put(self, work: Work) -> None:
        """Have it done; waits while too much does: steps must not run away from what has to be decoded."""
        with self._changed:
            self._changed.wait_for(self._has_room)
            self._work.append(work)
            self._changed.notify_all()

    def preview(self, name: Hashable, work: Work) -> None:
        """Have it done when there is time, instead of what waits under the same name."""
        with self._changed:
            self._previews[name] = work
            self._changed.notify_all()

    def stop(self, timeout: float) -> bool:
        """Do what waits, but for previews, and end; False where it takes longer."""
        with self._changed:
            self._stopping = True
            self._previews.clear()
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _has_room(self) -> bool:
        return len(self._work) < self._capacity or self._stopping or not self.alive

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                _log.exception("work beside the loop failed", action="engine.developer_failed")
            finally:
                del work  # it may hold tensors
                with self._changed:
                    self._since = None
                    self._changed.notify_all()
            self._on_progress()

    def _next(self) -> Work | None:
        with self._changed:
            self._changed.wait_for(lambda: self._work or self._previews or self._stopping)
            if not self._work and not self._previews:
                return None
            self._since = time.monotonic()
            work = self._work.popleft() if self._work else self._previews.popitem(last=False)[1]
            self._changed.notify_all()
            return work


class AtOnce(Developer):
    """Does everything at once, on the caller's thread.

    For devices whose steps take all cores: whoever decodes beside them takes cores away from them, and threads that
    don't fit onto the cores make both slower than one after the other.
    """

    def start(self) -> None:
        """There is no thread."""

    @property
    def alive(self) -> bool:
        """As long as the caller."""
        return True

    def put(self, work: Work) -> None:
        """Done when it returns."""
        self._do(work)

    def preview(self, name: Hashable, work: Work) -> None:  # noqa: ARG002
        """Done when it returns."""
        self._do(work)

    def _do(self, work: Work) -> None:
        try:
            work()
        except Exception:
            _log.exception("work between steps failed", action="engine.developer_failed")
        self._on_progress()
