"""What is checked of a request before a model sees it, and what a text encoder will make of its prompt."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from actors.engine.arguments import adapter_of, text_length
from actors.engine.errors import EngineError, InvalidRequestError, OutOfMemoryError
from actors.engine.request import RenderRequest
from safelight.config import ModelSettings

_log = structlog.get_logger(__name__)

_SEEDS = range(-(2**63), 2**64)  # what torch's generators take


def check_request(request: RenderRequest) -> None:
    """Raise InvalidRequestError on what no model can render, by the field's name."""
    check_text(request)
    for name in ("steps", "width", "height"):
        if getattr(request, name) < 1:
            raise InvalidRequestError(f"{name}: must be at least 1, not {getattr(request, name)}")
    if not request.seeds:
        raise InvalidRequestError("seeds: there must be one for each picture, and there is none")
    if not all(seed in _SEEDS for seed in request.seeds):
        raise InvalidRequestError(f"seeds: each must be between {_SEEDS.start} and {_SEEDS.stop - 1}")


@contextmanager
def refusing(model: str) -> Iterator[None]:
    """Around checks that call other people's code: whatever it raises refuses the request.

    Raises EngineError's kinds alone: InvalidRequestError, OutOfMemoryError, and those that were raised inside.
    """
    try:
        yield
    except EngineError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError("this machine has not enough memory to read the request") from error
    except Exception as error:
        _log.exception("a request's check failed", action="engine.check_failed", model=model)
        raise InvalidRequestError(f"the model refuses the request: {type(error).__name__}") from error


def check_text(request: RenderRequest) -> None:
    """Raise InvalidRequestError on text that no tokenizer takes (halves of UTF-16 pairs)."""
    for name in ("prompt", "negative_prompt"):
        try:
            (getattr(request, name) or "").encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"{name} is not valid Unicode: it holds a lone surrogate") from error


def request_warnings(request: RenderRequest, pipeline: Any, settings: ModelSettings) -> tuple[str, ...]:
    """What of the request's texts has no effect: a negative prompt that nothing reads, words beyond the limit."""
    return (*negative_warnings(request, pipeline, settings), *length_warnings(request, pipeline, settings))


def negative_warnings(request: RenderRequest, pipeline: Any, settings: ModelSettings) -> tuple[str, ...]:
    """A warning where the model takes no negative prompt and the request has one."""
    takes = settings.traits.negative_prompt and "negative_prompt" in inspect.signature(pipeline.__call__).parameters
    if request.negative_prompt and not takes:
        return ("the model takes no negative prompt; it had no effect",)
    return ()


def length_warnings(request: RenderRequest, pipeline: Any, settings: ModelSettings) -> tuple[str, ...]:
    """A warning for each text of the request that is longer than what the model's text encoder reads."""
    tokenizer = getattr(pipeline, adapter_of(settings).tokenizer, None)
    if not callable(tokenizer):
        return ()
    limit = min(text_length(settings) or 2**31, getattr(tokenizer, "model_max_length", 2**31))
    warnings = []
    for name in ("prompt", "negative_prompt"):
        tokens = count_tokens(tokenizer, getattr(request, name) or "")
        if tokens > limit:
            words = name.replace("_", " ")
            warnings.append(f"the {words} has {tokens} tokens; the text encoder reads {limit}, the rest had no effect")
    return tuple(warnings)


def count_tokens(tokenizer: Any, text: str) -> int:
    """Tokens of the text, special ones included; 0 where a tokenizer can't be asked in the usual way."""
    try:
        return len(tokenizer(text, truncation=False, verbose=False)["input_ids"])
    except (TypeError, ValueError, KeyError):
        return 0
