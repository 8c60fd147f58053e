"""The metrics that the code exposes, and the names that a query of PromQL uses."""

from __future__ import annotations

import re
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

import safelight.telemetry.metrics
from actors.gauges import DeviceGauges
from safelight.telemetry.dimensions import DimensionMetrics

_NAME = re.compile(r"(?<![:\w])safelight_[a-z0-9_]+(?![:\w])")
_ENDINGS = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


class Exposed(NamedTuple):
    """A metric by the name that Prometheus knows it by."""

    name: str
    kind: str
    labels: frozenset[str]

    @property
    def series(self) -> set[str]:
        """The names of its series."""
        return {self.name + ending for ending in _ENDINGS[self.kind]}


def exposed() -> set[Exposed]:
    """All metrics of Safelight's own: of every process, of dimensions (with one declared, ``team``), of devices."""
    registry = CollectorRegistry()
    of_dimensions = vars(DimensionMetrics({"team": 1}, registry)).values()
    wrapped = [*vars(safelight.telemetry.metrics).values(), *of_dimensions]
    found = {_of(metric) for metric in wrapped if isinstance(metric, MetricWrapperBase)}
    for family in DeviceGauges("cpu", "cpu", registry).collect():
        labels = {"device", "kind"} if family.name.endswith("memory_bytes") else {"device"}
        assert all(set(sample.labels) == labels for sample in family.samples)
        found.add(Exposed(family.name, family.type, frozenset(labels)))
    return found


def names_in(query: str) -> set[str]:
    """The metrics of Safelight's own that a query uses; what rules record has a ``:`` in its name and is left out."""
    return set(_NAME.findall(query))


def _of(metric: MetricWrapperBase) -> Exposed:
    family = next(iter(metric.describe()))
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Exposed(name, family.type, frozenset(metric._labelnames))
