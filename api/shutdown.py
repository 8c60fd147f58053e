"""Ends event streams as soon as the process is told to leave.

A server waits for open responses before it runs the application's shutdown, so streams that wait for the application's
shutdown would hold the process until it is killed (uvicorn, discussion 2829). The signal is the earliest word of it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_termination(call: Callable[[], None]) -> Iterator[None]:
    """Call ``call`` in the running loop at SIGTERM or SIGINT, before whoever handled these until now.

    Does nothing outside the main thread, where Python takes no signals: there the owner calls ``call`` itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)
        previous = before[signal.Signals(number)]
        if callable(previous):
            previous(number, frame)
        elif previous is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, previous in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, previous)
