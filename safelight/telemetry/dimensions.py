"""Jobs by their dimensions, as Prometheus metrics: only by those that the settings declare, each with so many values.

The amounts are floats: the ledger is the truth. docs/dimensions.md counts the series.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from safelight.config.telemetry import label_of

OTHER = "_other"
NONE = "_none"

_BUCKETS = (0.5, 1, 5, 10, 30, 60, 300)


class Values:
    """The values of one dimension: the first ``limit`` have their own name for good, later ones share one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def label(self, value: str | None) -> str:
        """What a job's value is called; None where the job has no such dimension."""
        if value is None or value in (NONE, OTHER):
            return value or NONE
        with self._lock:
            if value not in self._known:
                if len(self._known) >= self._limit:
                    return OTHER
                self._known.add(value)
        return value


class DimensionMetrics:
    """What jobs of each combination of dimensions did. Safe to use from any thread."""

    def __init__(self, declared: Mapping[str, int], registry: CollectorRegistry = REGISTRY) -> None:
        """``declared`` are the dimensions that become labels, and how many values each may have."""
        self.declared = dict(declared)
        self._registry = registry
        self._values = {name: Values(limit) for name, limit in declared.items()}
        labels = tuple(label_of(name) for name in declared)
        if not labels:
            return
        self._submitted = Counter(
            "safelight_dim_jobs_submitted_total", "Jobs accepted, by how the cache answered.", (*labels, "cache"),
            registry=registry,
        )  # fmt: skip
        self._settled = Counter(
            "safelight_dim_jobs_settled_total", "Jobs that a worker brought to their end, by how.",
            (*labels, "outcome"), registry=registry,
        )  # fmt: skip
        self._charged = Counter(
            "safelight_dim_charged_total", "What they were charged, about: the ledger has the amounts.",
            (*labels, "currency"), registry=registry,
        )  # fmt: skip
        self._device = Counter(
            "safelight_dim_device_seconds_total", "Seconds of device time that their attempts took.", labels,
            registry=registry,
        )  # fmt: skip
        self._waited = Histogram(
            "safelight_dim_queue_wait_seconds", "From accepted to first claimed, in seconds.", labels,
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._rendered = Histogram(
            "safelight_dim_render_seconds", "From claim to settled, in seconds.", labels,
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip

    def submitted(self, dimensions: Mapping[str, str], cache: str) -> None:
        """A job was accepted."""
        if self.declared:
            self._submitted.labels(*self._labels(dimensions), cache).inc()

    def waited(self, dimensions: Mapping[str, str], seconds: float) -> None:
        """A job was claimed for the first time, so long after it was accepted."""
        if self.declared:
            self._waited.labels(*self._labels(dimensions)).observe(seconds)

    def attempted(self, dimensions: Mapping[str, str], device_seconds: float, seconds: float) -> None:
        """An attempt is over; it held its slot for ``seconds``."""
        if self.declared:
            labels = self._labels(dimensions)
            self._device.labels(*labels).inc(device_seconds)
            self._rendered.labels(*labels).observe(seconds)

    def settled(self, dimensions: Mapping[str, str], outcome: str, charged: float, currency: str) -> None:
        """A job is at its end."""
        if self.declared:
            labels = self._labels(dimensions)
            self._settled.labels(*labels, outcome).inc()
            self._charged.labels(*labels, currency).inc(charged)

    def close(self) -> None:
        """Be scraped no more."""
        if self.declared:
            for metric in (
                self._submitted, self._settled, self._charged, self._device, self._waited, self._rendered,
            ):  # fmt: skip
                self._registry.unregister(metric)

    def _labels(self, dimensions: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(values.label(dimensions.get(name)) for name, values in self._values.items())


_lock = threading.Lock()
_shared: DimensionMetrics | None = None


def dimension_metrics(declared: Mapping[str, int]) -> DimensionMetrics:
    """The process's own: the API and the worker of one process count together. Other dimensions begin anew."""
    global _shared
    with _lock:
        if _shared is None or _shared.declared != declared:
            if _shared is not None:
                _shared.close()
            _shared = DimensionMetrics(declared)
        return _shared
