"""One process of the house, through all its lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.processes import REPOSITORY


@dataclass(slots=True)
class Member:
    """What is started, and the process that it is now. ``wanted`` False lets it stay dead; a port is an API's."""

    name: str
    arguments: Sequence[str]
    environment: dict[str, str]
    log: Path
    wanted: bool = True
    lives: int = 0
    popen: subprocess.Popen[bytes] | None = None
    port: int = 0

    @property
    def pid(self) -> int:
        """The process's id; 0 before its first life."""
        return 0 if self.popen is None else self.popen.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self.popen is not None and self.popen.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a process that is gone by now gets none."""
        if self.popen is not None:
            self.popen.send_signal(number)

    def live(self) -> None:
        """Start it anew."""
        self.lives += 1
        with self.log.open("ab") as stream:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.process", *self.arguments],
                cwd=REPOSITORY,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def url_of(member: Member) -> str:
    """The address of an API process."""
    return f"http://127.0.0.1:{member.port}"


@contextmanager
def frozen(*members: Member) -> Iterator[None]:
    """SIGSTOP for as long as the body takes, then SIGCONT."""
    for member in members:
        member.send(signal.SIGSTOP)
    try:
        yield
    finally:
        for member in members:
            member.send(signal.SIGCONT)
