"""Providers that the litellm library reaches. It is an extra, and imported when it is first needed."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import Any

from actors.providers.openai_images import pictures_of
from actors.providers.orders import (
    Order,
    ProviderBusyError,
    ProviderError,
    ProviderFilteredError,
    ProviderRefusedError,
    ProviderUnreachableError,
)
from actors.providers.refusals import UNSURE, pause_of
from safelight.config import ProviderSettings

_FILTERED = "ContentPolicyViolationError"
# The library knows few refusals for what they are: these words are in the others, at a 400.
_FILTERED_WORDS = ("content_policy", "content policy", "content_filter", "moderation", "safety system")
_UNREACHABLE = ("APIConnectionError", "Timeout", "APITimeoutError")


class ThroughLitellm:
    """A ``Provider``."""

    def __init__(self, name: str, settings: ProviderSettings, key: str | None, headers: Mapping[str, str]) -> None:
        """``name`` is the model's own; ``key`` and ``headers`` are secret."""
        self._name = name
        self._settings = settings
        self._key = key
        self._headers = dict(headers)

    async def render(self, order: Order) -> tuple[bytes, ...]:
        """Ask through the library. Raises ProviderError's kinds."""
        generate = await asyncio.to_thread(_generate_of, self._name)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await generate(**self._arguments(order))
        except TimeoutError as error:
            words = f"the provider of {self._name} gave no pictures within {self._settings.timeout_s:g} s"
            raise ProviderUnreachableError(words) from error
        except Exception as error:  # the library's errors have no common root but Exception
            raise _refusal(self._name, error) from error
        return await asyncio.to_thread(self._pictures, order, answer)

    async def close(self) -> None:
        """The library keeps its connections to itself."""

    def _pictures(self, order: Order, answer: Any) -> tuple[bytes, ...]:
        found = answer.model_dump() if hasattr(answer, "model_dump") else dict(answer)
        return pictures_of(found, order, self._name)

    def _arguments(self, order: Order) -> dict[str, Any]:
        settings = self._settings
        arguments: dict[str, Any] = {
            "model": settings.model,
            "prompt": order.prompt,
            "n": order.n,
            "size": f"{order.width}x{order.height}",
            "timeout": settings.timeout_s,
            "max_retries": 0,  # the store counts attempts; the library's openai client asks twice more all the same
            "extra_headers": {**self._headers, "Idempotency-Key": f'"{order.key}"'},
        }
        optional = {"api_key": self._key, "api_base": settings.base_url or None}
        if "gpt-image" not in settings.model:
            optional["response_format"] = "b64_json"
        arguments |= {name: value for name, value in optional.items() if value is not None}
        if settings.extra:
            extra: dict[str, Any] = {"seed": order.seed, "steps": order.steps, "guidance": order.guidance}
            extra |= {"negative_prompt": order.negative_prompt}
            arguments["extra_body"] = {name: value for name, value in extra.items() if value is not None}
        return arguments


def _generate_of(name: str) -> Any:
    # Else the library fetches a list of prices from the internet when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        library: Any = importlib.import_module("litellm")
    except ImportError as error:
        words = f"the provider of {name} wants a package that is missing: pip install 'safelight[litellm]'"
        raise ProviderRefusedError(words) from error
    library.telemetry = False
    library.suppress_debug_info = True
    return library.aimage_generation


def _refusal(name: str, error: Exception) -> ProviderError:
    """What an error of the library means. Its message is not told: it may hold the request, or the key."""
    kind = type(error).__name__
    status = getattr(error, "status_code", None)
    words = f"the provider of {name} gave no pictures: {kind}" + (f" ({status})" if isinstance(status, int) else "")
    flagged = status == 400 and any(word in str(error).lower() for word in _FILTERED_WORDS)
    if kind == _FILTERED or flagged:
        return ProviderFilteredError(words)
    if kind in _UNREACHABLE:
        return ProviderUnreachableError(words)
    if isinstance(status, int) and (status in UNSURE or status == 429 or status >= 500):
        response = getattr(error, "response", None)
        pause_s = pause_of(getattr(response, "headers", None) or {})
        kind_of_error = ProviderUnreachableError if status in UNSURE else ProviderBusyError
        return kind_of_error(words, pause_s)
    return ProviderRefusedError(words)
