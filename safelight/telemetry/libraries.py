"""Libraries' own log lines: all go through the root logger's handler, in our format, and quote no prompt."""

from __future__ import annotations

import logging
import re

# They give their root loggers a handler of their own when they are imported, and keep lines from the root logger.
_OWN_HANDLERS = ("transformers", "diffusers", "accelerate", "huggingface_hub", "torch", "uvicorn", "uvicorn.error")
_LONGEST = 2_000

# "The following part of your input was truncated because CLIP can only handle sequences up to 77 tokens: ['…']"
_TRUNCATED = re.compile(r"(?s)(input was truncated because.{0,100}? tokens): .*")

# What they warn of as they are imported, by logger: parts that are not here and that nothing asked for. On a GPU the
# first two may cost speed, so they are still told, as information.
_EXPECTED = {
    "torchao": re.compile(r"Failed to load \S+\.so: "),
    "torchao.kernel.intmm": re.compile("Warning: Detected no triton"),
    "torch.utils._pytree": re.compile(r"<enum '\w+'> is an Enum subclass"),
    "transformers.utils.import_utils": re.compile(r"`\w+` requires torchvision"),
    "diffusers.quantizers.torchao.torchao_quantizer": re.compile("Unable to import `torchao` Tensor objects"),
}


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


class Expecting(logging.Filter):
    """Lowers what libraries warn of at every start to information."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a line that is lowered below what the root logger takes."""
        expected = _EXPECTED.get(record.name)
        if record.levelno == logging.WARNING and expected is not None and expected.match(record.getMessage()):
            record.levelno, record.levelname = logging.INFO, "INFO"
            return logging.getLogger().isEnabledFor(logging.INFO)
        return True


class Unquoting(logging.Filter):
    """Cuts prompts, and what is very long, out of libraries' messages. Lines of structlog pass as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True for every record."""
        if not isinstance(record.msg, dict):
            message = _TRUNCATED.sub(r"\1", record.getMessage())
            record.msg, record.args = message[:_LONGEST], ()
        return True
