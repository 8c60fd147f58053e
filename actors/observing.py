"""What the engine does, as Prometheus metrics."""

from __future__ import annotations

from actors.engine.observer import GraphEvent, StepTaken
from safelight.telemetry.metrics import (
    ADMISSION_SECONDS,
    BATCH_ROOM,
    BATCH_ROWS,
    BATCHES_HALVED,
    DEVICE_BUSY,
    EMBEDS,
    GRAPH_EVENTS,
    PADDED_ROWS,
    STEP_SECONDS,
)

_MOST_SIZES = 32
_OTHER = "other"


class EngineMetrics:
    """An observer of the engine (``actors.engine.observer.Observer``). Called from the engine's threads.

    Models come from the settings, but sizes from requests: the first 32 have a label of their own, the rest share one.
    """

    def __init__(self) -> None:
        self._sizes: set[str] = set()

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        STEP_SECONDS.labels(step.model, self._label(step.size)).observe(step.seconds)
        BATCH_ROWS.labels(step.model).observe(step.rows)
        BATCH_ROOM.labels(step.model).inc(max(step.limit, step.rows))
        PADDED_ROWS.labels(step.model).inc(step.padded)

    def admitted(self, model: str, waited_s: float) -> None:
        """A request began to be rendered."""
        ADMISSION_SECONDS.labels(model).observe(max(waited_s, 0.0))

    def embedded(self, model: str, *, hit: bool) -> None:
        """A prompt was encoded, or found encoded."""
        EMBEDS.labels(model, "hit" if hit else "miss").inc()

    def graph(self, model: str, event: GraphEvent) -> None:
        """A CUDA graph was captured, replayed, could not be, or made room."""
        GRAPH_EVENTS.labels(model, event).inc()

    def busy(self, seconds: float) -> None:
        """The device worked so long."""
        DEVICE_BUSY.inc(max(seconds, 0.0))

    def halved(self, model: str) -> None:
        """A batch was halved because the device ran out of memory."""
        BATCHES_HALVED.labels(model).inc()

    def _label(self, size: str) -> str:
        if size not in self._sizes and len(self._sizes) >= _MOST_SIZES:
            return _OTHER
        self._sizes.add(size)
        return size
