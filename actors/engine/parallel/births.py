"""How a rank's process comes into the world, and what its parent can do to it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from actors.engine.parallel.nursery import FORKS, beg

_LOAD_S = 120.0  # that the nursery may take for the libraries
_RANK = "actors.engine.parallel.rank"
_NURSERY = "actors.engine.parallel.nursery"


# Processes end with the thread that started them. This one ends with the process; a caller's may be a pipeline's own,
# which ends with its render.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ranks")


class Child(Protocol):
    """A process that was started here."""

    pid: int

    def kill(self) -> None:
        """End it at once; nothing happens where it has ended."""

    def ended(self) -> bool:
        """Whether it has."""

    def wait(self) -> None:
        """Until it has ended; nothing is left of it then."""


def bear(fds: Sequence[int], *, quick: bool) -> Child:
    """Start a rank's process that has these descriptors; the first is its pipe. Raises OSError.

    ``quick`` forks it from a process that has loaded the libraries already, on systems that can. Not for CUDA, which
    does not survive a fork where a library has so much as looked for devices.
    """
    return _starter.submit(_born, fds, quick=quick).result()


def _born(fds: Sequence[int], *, quick: bool) -> Child:
    return _nursery.child(fds) if quick and FORKS else _Started(_RANK, fds)


class _Started:
    """A process with an interpreter of its own."""

    def __init__(self, module: str, fds: Sequence[int]) -> None:
        command = [sys.executable, "-m", module, *(str(fd) for fd in fds)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=fds)  # noqa: S603 (our own)
        self.pid = self._process.pid

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> None:
        self._process.wait()


class _Forked:
    """A process that the nursery forked, known by a descriptor: its number may be another's by now."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd

    def kill(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def ended(self) -> bool:
        return self._fd < 0 or bool(select.select([self._fd], [], [], 0)[0])

    def wait(self) -> None:
        if self._fd >= 0:
            select.select([self._fd], [], [])
            os.close(self._fd)
            self._fd = -1


class _Nursery:
    """The process that forks ranks; there is one at most, from the first rank that wants it on.
    Used by one thread alone.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: _Started | None = None

    def child(self, fds: Sequence[int]) -> Child:
        """Fork one. Raises OSError where even a new nursery can't."""
        for last in (False, True):
            try:
                return _Forked(*beg(self._open(), fds))
            except OSError:
                self._close()
                if last:
                    raise
        raise OSError("no tries are left")

    def _open(self) -> socket.socket:
        if self._link is None:
            self._link, theirs = socket.socketpair()
            self._link.settimeout(_LOAD_S)
            with theirs:
                self._process = _Started(_NURSERY, [theirs.fileno()])
        return self._link

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


_nursery = _Nursery()
