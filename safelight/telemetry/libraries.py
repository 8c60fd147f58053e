"""Libraries' own log lines: all go through the root logger's handler, in our format, and quote no prompt."""

from __future__ import annotations

import logging
import re

# They give their root loggers a handler of their own when they are imported, and keep lines from the root logger.
_OWN_HANDLERS = ("transformers", "diffusers", "accelerate", "huggingface_hub", "torch", "uvicorn", "uvicorn.error")
_LONGEST = 2_000

# "The following part of your input was truncated because CLIP can only handle sequences up to 77 tokens: ['…']"
_TRUNCATED = re.compile(r"(?s)(input was truncated because.{0,100}? tokens): .*")


class RoutedLogger(logging.Logger):
    """A logger that hands everything up, whatever handler or level of its own a library wants for it."""

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802 - the base's name
        """Not here: the root logger's handler writes."""

    @property
    def propagate(self) -> bool:
        """Always."""
        return True

    @propagate.setter
    def propagate(self, _value: bool) -> None:
        """Not to be changed."""


def route_libraries() -> None:
    """Have libraries' lines go to the root logger; those not yet imported, too."""
    for name in _OWN_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.__class__ = RoutedLogger
    logging.captureWarnings(capture=True)


class Unquoting(logging.Filter):
    """Cuts prompts, and what is very long, out of libraries' messages. Lines of structlog pass as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True for every record."""
        if not isinstance(record.msg, dict):
            message = _TRUNCATED.sub(r"\1", record.getMessage())
            record.msg, record.args = message[:_LONGEST], ()
        return True
