"""What a provider is asked for, what it gives, and why it gives nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """``n`` pictures of ``width`` x ``height`` pixels.

    A provider that keeps to ``key`` renders what it is asked for under it once, however often it is asked.
    """

    key: str
    prompt: str
    negative_prompt: str | None
    width: int
    height: int
    n: int
    seed: int
    steps: int
    guidance: float | None


class Provider(Protocol):
    """Somebody who renders. Belongs to one event loop; what is canceled is waited for no longer."""

    async def render(self, order: Order) -> tuple[bytes, ...]:
        """The picture files. Raises ProviderError's kinds."""

    async def close(self) -> None:
        """Let go of connections."""


class ProviderError(Exception):
    """The root of all reasons why a provider gives no pictures; ``code`` is stable and for programs.

    The message is for people: it holds no secret, and of a provider's own words only what can't hold one.
    ``retry_after_s`` is how long the provider wants to be left alone, in seconds.
    """

    code = "provider_refused"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ProviderRefusedError(ProviderError):
    """It won't, whoever asks again: a wrong key, an unknown model, a parameter that it doesn't take."""


class ProviderBusyError(ProviderError):
    """It can't now: too many requests, or an error of its own."""

    code = "provider_busy"


class ProviderUnreachableError(ProviderError):
    """No answer came, or only a proxy's, so nobody knows whether it renders."""

    code = "provider_unreachable"


class ProviderFilteredError(ProviderError):
    """It says that the prompt, or the picture, is against its rules."""

    code = "content_filtered"


class ProviderOutputError(ProviderError):
    """Its answer holds no pictures that can be read."""

    code = "bad_output"
