"""How much the server commands log, and in which form."""

from __future__ import annotations

import logging
import sys

from safelight.config import LogSettings
from safelight.telemetry import configure_logging


def configure_for(settings: LogSettings, *, quiet_at_terminal: bool = False) -> None:
    """Log as the settings say. With ``quiet_at_terminal`` a person who set nothing sees warnings only, readable."""
    if quiet_at_terminal and settings == LogSettings() and sys.stderr.isatty():
        settings = LogSettings(level="warning", format="console")
    configure_logging(settings)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its start and stop are told by our own lines
