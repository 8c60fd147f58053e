"""What a chart shows, as the pages' script takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal


def chart(
    kind: Literal["line", "bar"],
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    unit: str = "",
    stacked: bool = False,
) -> dict[str, Any]:
    """Numbers by label, one line or colour a series; draw it by ``parts.chart``, with a table beneath it."""
    data = [{"label": name, "data": [*values]} for name, values in series.items()]
    return {"kind": kind, "labels": [*labels], "series": data, "unit": unit, "stacked": stacked}
