"""The two consoles: results go to standard output, everything else to standard error."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@cache
def _console(stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def out() -> Console:
    """Standard output, for results."""
    return _console(False)


def err() -> Console:
    """Standard error, for progress and explanations."""
    return _console(True)
