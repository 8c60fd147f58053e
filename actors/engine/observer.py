"""Who hears what the engine does: whoever exports metrics.

Calls come from the engine's threads and must return at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

GraphEvent = Literal["capture", "replay", "fallback", "evict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken:
    """One step of one batch: ``rows`` of at most ``limit``, ``padded`` of no use besides, and its ``seconds``."""

    model: str
    size: str
    rows: int
    padded: int
    limit: int
    seconds: float


class Observer(Protocol):
    """Hears what the engine does."""

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""

    def admitted(self, model: str, waited_s: float) -> None:
        """A request began to be rendered, so long after it came in."""

    def embedded(self, model: str, *, hit: bool) -> None:
        """A prompt was encoded, or found encoded."""

    def graph(self, model: str, event: GraphEvent) -> None:
        """A CUDA graph was captured, replayed, could not be, or made room."""

    def busy(self, seconds: float) -> None:
        """The device worked so long: steps, text encoders, decoding on the engine's own thread."""

    def halved(self, model: str) -> None:
        """A batch was halved because the device ran out of memory."""


class Unobserved:
    """An observer that doesn't listen."""

    def stepped(self, step: StepTaken) -> None:
        """Nothing."""

    def admitted(self, model: str, waited_s: float) -> None:
        """Nothing."""

    def embedded(self, model: str, *, hit: bool) -> None:
        """Nothing."""

    def graph(self, model: str, event: GraphEvent) -> None:
        """Nothing."""

    def busy(self, seconds: float) -> None:
        """Nothing."""

    def halved(self, model: str) -> None:
        """Nothing."""
