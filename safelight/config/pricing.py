"""``[models.NAME.pricing]``: what a picture of a model costs, in exact decimals."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, field

from safelight.config.base import Base

Size = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}\Z")]

MOST = 1_000_000
"""What one picture may cost at most: ten of them still fit the store's columns, and so do sums of many jobs."""

_AMOUNT = re.compile(r"[0-9]{1,7}(\.[0-9]{1,9})?", re.ASCII)
_SMALLEST = Decimal("1E-9")


def amount(key: str, text: str) -> Decimal:
    """The amount that a key holds. Raises ValueError."""
    found = Decimal(text) if _AMOUNT.fullmatch(text) else None
    if found is None or found > MOST:
        raise ValueError(f'{key} {text!r} is not an amount like "0.002" (at most 9 decimals, and a million)')
    return found


class PricingSettings(Base, frozen=True, kw_only=True):
    """A price by what is rendered, or by the device time that it takes.

    All are decimals in quotes, in the currency of ``[jobs]``. By what is rendered, a picture costs the sum of
    ``per_image`` (for a size in ``sizes`` what stands there instead), ``per_megapixel`` for its size,
    ``per_megapixel_step`` for its size times its steps, and ``per_adapter`` for each adapter; at least ``minimum``.
    By device time it costs ``gpu_hour`` for an hour, and at most ``max_per_image``.
    """

    per_image: str = "0"
    per_megapixel: str = "0"
    per_megapixel_step: str = "0"
    per_adapter: str = "0"
    minimum: str = "0"
    sizes: dict[Size, str] = field(default_factory=dict)
    gpu_hour: str | None = None
    max_per_image: str | None = None

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        by_picture = ("per_image", "per_megapixel", "per_megapixel_step", "per_adapter", "minimum")
        for key in by_picture:
            amount(key, getattr(self, key))
        for size, text in self.sizes.items():
            amount(f"sizes: {size}", text)
        if self.gpu_hour is None:
            if self.max_per_image is not None:
                raise ValueError("max_per_image bounds what device time costs: it wants gpu_hour beside it")
            return
        amount("gpu_hour", self.gpu_hour)
        if self.max_per_image is None:
            raise ValueError("gpu_hour wants max_per_image beside it: the most that a picture is charged")
        amount("max_per_image", self.max_per_image)
        if strays := [key for key in (*by_picture, "sizes") if getattr(self, key) not in ("0", {})]:
            raise ValueError(f"with gpu_hour a picture costs its device time: leave out {', '.join(strays)}")

    def per_picture(self, width: int, height: int, steps: int, adapters: int = 0) -> Decimal:
        """What one picture costs, or costs at most where device time is charged. Rounded half up to 9 decimals."""
        if self.max_per_image is not None:
            return Decimal(self.max_per_image)
        pixels = width * height
        price = Decimal(self.sizes.get(f"{width}x{height}", self.per_image) if self.sizes else self.per_image)
        # Every submit asks, and most prices are of one kind: what costs nothing isn't added.
        if self.per_megapixel != "0":
            price += Decimal(self.per_megapixel) * Decimal(pixels).scaleb(-6)
        if self.per_megapixel_step != "0":
            price += Decimal(self.per_megapixel_step) * Decimal(pixels * steps).scaleb(-6)
        if adapters:
            price += Decimal(self.per_adapter) * adapters
        return max(price, Decimal(self.minimum)).quantize(_SMALLEST, ROUND_HALF_UP)

    @property
    def rate(self) -> Decimal | None:
        """What an hour of device time costs; None where none is charged."""
        return None if self.gpu_hour is None else Decimal(self.gpu_hour)


@lru_cache(maxsize=128)
def by_image(price: str) -> PricingSettings:
    """What ``price`` is short for. Kept: every submit asks."""
    return PricingSettings(per_image=price)
