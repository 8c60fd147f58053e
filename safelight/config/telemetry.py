"""``[telemetry]``: where traces go, and which dimensions become labels of metrics."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, field

from safelight.config.base import Base

DimensionName = Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
MOST_COMBINATIONS = 2_000  # of dimensions' values; docs/dimensions.md tells how many series each is


class TelemetrySettings(Base, frozen=True, kw_only=True):
    """What the service tells of itself.

    ``traces``: ``otlp`` sends them where the environment's OTEL_EXPORTER_OTLP_ENDPOINT says, and nowhere without it.
    ``trace_ratio`` is the share of requests that are traced, of those that no client has decided about.
    ``dimensions`` names the dimensions of jobs that become labels, each with how many values it may have.
    """

    traces: Literal["otlp", "off"] = "otlp"
    trace_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    dimensions: dict[DimensionName, Annotated[int, Meta(ge=1, le=1000)]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        labels = [label_of(name) for name in self.dimensions]
        if len(labels) != len(set(labels)):
            raise ValueError("two dimensions would be the same label: Prometheus knows no '-', it becomes '_'")
        combinations = math.prod(limit + 2 for limit in self.dimensions.values())
        if combinations > MOST_COMBINATIONS:
            raise ValueError(
                f"the dimensions could have {combinations} combinations of values, and {MOST_COMBINATIONS} are allowed"
                ": declare fewer, or fewer values (each counts two more, _other and _none)"
            )


def label_of(dimension: str) -> str:
    """The name of a dimension's label in metrics."""
    return f"dim_{dimension.replace('-', '_')}"
