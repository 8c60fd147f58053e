"""Commands whose own words say it all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silence() -> Iterator[None]:
    """No logs meanwhile."""
    from safelight.config import LogSettings
    from safelight.telemetry import configure_logging

    configure_logging(LogSettings())
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
