"""Each way to render in a process of its own, asked in turn: no way's threads slow another's down.

OpenMP's threads give up waiting for work at once where a process has more of them than the machine has cores, and two
ways in one process would come to that.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from safelight.config import LogSettings
from safelight.telemetry.logs import configure_logging

Answer = Callable[[Any], Any]
Make = Callable[[], Answer]


class Apart:
    """A process that answers questions with what ``make``, called there, returned."""

    def __init__(self, make: Make, threads: int) -> None:
        """``make`` must be a function of a module, or a ``functools.partial`` of one."""
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, threads), daemon=True)
        self._process.start()
        self._ours.recv()

    def ask(self, question: Any) -> Any:
        """The answer, once it is there."""
        self._ours.send(question)
        return self._ours.recv()

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection, make: Make, threads: int) -> None:
    configure_logging(LogSettings(level="error", format="console"))
    torch.set_num_threads(threads)
    answer = make()
    pipe.send(None)
    while True:
        pipe.send(answer(pipe.recv()))
