"""The providers of the settings, each made when it is first asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from actors.providers.openai_images import OpenAIImages
from actors.providers.orders import Order, Provider, ProviderRefusedError
from actors.providers.through_litellm import ThroughLitellm
from safelight.config import ProviderSettings

_KINDS: dict[str, type[OpenAIImages] | type[ThroughLitellm]] = {"openai": OpenAIImages, "litellm": ThroughLitellm}


@dataclass(slots=True)
class _Known:
    provider: Provider
    turns: asyncio.Semaphore


class Providers:
    """Asks no provider for more at once than its settings say. Belongs to the event loop of the actors."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """``environ`` holds the secrets; they are read when a provider is first asked."""
        self._environ = environ
        self._known: dict[str, _Known] = {}

    async def render(self, name: str, settings: ProviderSettings, order: Order) -> tuple[bytes, ...]:
        """The picture files that the provider of the model ``name`` gives. Raises ProviderError's kinds."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Known(self._made(name, settings), asyncio.Semaphore(settings.max_concurrency))
        async with known.turns:
            return await known.provider.render(order)

    async def close(self) -> None:
        """Let go of all connections."""
        for known in self._known.values():
            await known.provider.close()
        self._known.clear()

    def _made(self, name: str, settings: ProviderSettings) -> Provider:
        if unset := settings.unset(self._environ):
            words = f"the provider of {name} wants the environment variable {', '.join(unset)}, which this worker lacks"
            raise ProviderRefusedError(words)
        key = None if settings.api_key_env is None else self._environ[settings.api_key_env]
        headers = {header: self._environ[variable] for header, variable in settings.headers_env.items()}
        return _KINDS[settings.kind](name, settings, key, headers)
