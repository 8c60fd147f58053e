"""Signs of life of a group's ranks: each writes the time to shared memory, from a thread of its own."""

from __future__ import annotations

import mmap
import os
import threading
import time

_BYTES = 8  # a double: seconds of the monotonic clock, which all processes of a machine share
_EVERY_S = 0.25


class Beats:
    """The instants (``time.monotonic()``) at which ranks were last alive."""

    def __init__(self, fd: int, ranks: int) -> None:
        """``fd`` comes from ``arena.shared_file``; it belongs to the beats."""
        self.fd = fd
        os.ftruncate(fd, ranks * _BYTES)
        self._instants = memoryview(mmap.mmap(fd, ranks * _BYTES)).cast("d")

    def beat(self, rank: int) -> None:
        """The rank is alive now."""
        self._instants[rank] = time.monotonic()

    def silence_s(self, rank: int, since: float) -> float:
        """Seconds since the rank's last beat, or since that instant where none came after it."""
        return time.monotonic() - max(self._instants[rank], since)

    def close(self) -> None:
        """Let go of the descriptor; what is mapped stays readable."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def keep(self, rank: int, parent: int) -> None:
        """Beat from now on; end the process at once when ``parent`` is not its parent any more."""
        self.beat(rank)
        threading.Thread(target=self._keep, args=(rank, parent), name="beats", daemon=True).start()

    def _keep(self, rank: int, parent: int) -> None:
        while os.getppid() == parent:
            self.beat(rank)
            time.sleep(_EVERY_S)
        os._exit(1)
