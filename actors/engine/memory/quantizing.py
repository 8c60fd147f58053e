"""A denoiser in fewer bytes: its linear weights as int8 or float8, computing in the model's own number format."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from actors.engine.errors import ModelUnavailableError
from actors.engine.memory.parts import denoisers

if TYPE_CHECKING:
    import torch

_NOISY = ("torchao", "torch.utils._pytree")


def quantize_denoiser(pipeline: Any, quantize: str, dtype: torch.dtype) -> None:
    """Quantise the denoiser's weights in place, by the ``quantize`` of its settings.

    ``int8`` and ``float8`` are torchao's weight-only schemes, a scale for each row; ``layerwise-float8`` is diffusers'
    layerwise casting, which stores float8 without scales. Raises ModelUnavailableError where torchao is missing.
    """
    for module in denoisers(pipeline).values():
        if quantize == "layerwise-float8":
            import torch

            module.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=dtype)  # type: ignore[operator]
        elif quantize != "none":
            _quantize(module, quantize)


def _quantize(module: torch.nn.Module, quantize: str) -> None:
    schemes = _torchao()
    config = schemes.Int8WeightOnlyConfig() if quantize == "int8" else schemes.Float8WeightOnlyConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schemes.quantize_(module, config)


def _torchao() -> Any:
    try:
        with torchao_hushed():
            return importlib.import_module("torchao.quantization")
    except ImportError as error:
        raise ModelUnavailableError(
            "a quantized model needs torchao, which is not installed: pip install 'safelight[quantize]'"
        ) from error


@contextmanager
def torchao_hushed() -> Iterator[None]:
    """torchao warns of kernels that this machine has no use for when it is imported; diffusers imports it, too."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
