"""What a text encoder will make of a prompt, before it is asked."""

from __future__ import annotations

import inspect
from typing import Any

from actors.engine.arguments import adapter_of, text_length
from actors.engine.errors import InvalidRequestError
from actors.engine.request import RenderRequest
from safelight.config import ModelSettings


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
