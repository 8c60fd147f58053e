"""The two consoles: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 160  # columns where there is no terminal to ask


@cache
def _console(stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def out() -> Console:
    """Standard output, for results."""
    return _console(False)


def err() -> Console:
    """Standard error, for progress and explanations."""
    return _console(True)
