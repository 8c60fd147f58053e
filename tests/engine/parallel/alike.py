"""Pictures that are the same up to rounding."""

from __future__ import annotations

from PIL import ImageChops

from actors.engine.request import RenderResult


def check_alike(result: RenderResult, expected: RenderResult) -> None:
    """As many pictures, that differ by one of 255 levels at most."""
    for one, other in zip(result.images, expected.images, strict=True):
        bands = ImageChops.difference(one, other).getextrema()
        assert max(high for _, high in bands) <= 1  # type: ignore[misc]
