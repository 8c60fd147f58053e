"""A process that loads the libraries once and forks ranks on CPUs: ``python -m actors.engine.parallel.nursery FD``.

torch and diffusers take seconds to import, in each process. What is forked has them at once, and shares their memory.
It ends when its parent does, and its ranks with it.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence

FORKS = hasattr(os, "fork") and hasattr(os, "pidfd_open")
"""Whether this system can: Linux."""

_ANSWER = struct.Struct("i")  # a process's number
_MOST_FDS = 8
_LIBRARIES = (
    "actors.engine.families",
    "actors.engine.parallel.programs",
    "actors.engine.parallel.spreading",
    "actors.engine.parallel.stages.program",
)


def beg(link: socket.socket, fds: Sequence[int]) -> tuple[int, int]:
    """Ask a nursery for a rank with these descriptors: its number, and a descriptor of its process. Raises OSError."""
    socket.send_fds(link, [b"+"], list(fds))
    answer, given, _, _ = socket.recv_fds(link, _ANSWER.size, 1)
    if len(answer) < _ANSWER.size or len(given) != 1:
        raise ConnectionError("the process that starts ranks has ended")
    return _ANSWER.unpack(answer)[0], given[0]


def main() -> None:
    """Fork a rank for each wish."""
    from actors.engine.parallel.rank import outlive_nobody, quieten

    link = socket.socket(fileno=int(sys.argv[1]))
    outlive_nobody()
    quieten()
    _load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing is left of ranks that end
    while True:
        wish, fds, _, _ = socket.recv_fds(link, 1, _MOST_FDS)
        if not wish:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            link.close()
            _be(fds)
        for fd in fds:
            os.close(fd)
        process = os.pidfd_open(pid)
        socket.send_fds(link, [_ANSWER.pack(pid)], [process])
        os.close(process)


def _load() -> None:
    from actors.engine.memory.quantizing import torchao_hushed

    with torchao_hushed():
        for library in _LIBRARIES:
            importlib.import_module(library)


def _be(fds: Sequence[int]) -> None:
    """Be a rank, for good."""
    from actors.engine.parallel.rank import serve

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        serve(*fds)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
