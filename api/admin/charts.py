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
    colours: Sequence[str] = (),
) -> dict[str, Any]:
    """Numbers by label, one line or colour a series; draw it by ``parts.chart``, with a table beneath it.

    ``colours`` are names of the style sheet's, such as ``good``, for the series in their order.
    """
    data: list[dict[str, Any]] = [{"label": name, "data": [*values]} for name, values in series.items()]
    for one, colour in zip(data, colours, strict=False):
        one["colour"] = colour
    return {"kind": kind, "labels": [*labels], "series": data, "unit": unit, "stacked": stacked}
