"""Shows on standard error how a start gets on: a spinner at a terminal, a line with its time for each phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from safelight.cli.consoles import err
from safelight.cli.server.stopping import StopSignal


class Phases:
    """The phases of one start. A signal ends it between two of them, or as soon as one is done."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop

    @contextmanager
    def phase(self, doing: str, done: str) -> Iterator[None]:
        """Show ``doing`` while the body runs, and ``done`` with its seconds afterwards. Raises Interrupted."""
        self._stop.check()
        started = time.monotonic()
        with err().status(f"{doing}…"):
            yield
        err().print(f"[green]✓[/] {done} [dim]{time.monotonic() - started:.1f} s[/]")
        self._stop.check()
