"""Prices over the wire: decimals as strings, so that no cent is rounded."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class PricingView(Struct, frozen=True, kw_only=True):
    """What a picture of a model costs: the sum of ``per_image`` (for a size in ``sizes`` what stands there instead),
    ``per_megapixel``, ``per_megapixel_step`` and ``per_adapter``, at least ``minimum``. Where ``gpu_hour`` is not null,
    its device time by the hour instead, at most ``max_per_image``. ``usual`` is what one of the model's default size
    and steps costs, or costs at most."""

    currency: str
    per_image: str
    per_megapixel: str
    per_megapixel_step: str
    per_adapter: str
    minimum: str
    sizes: dict[str, str]
    gpu_hour: str | None
    max_per_image: str | None
    usual: str


class JobPrice(Struct, frozen=True, kw_only=True):
    """What a submit would cost if it is rendered: ``price`` for all pictures, or at most that where ``gpu_hour`` is the
    price of device time. ``held`` is what budgets must have room for: the dearest of its fallbacks counts."""

    object: Literal["price"] = "price"
    model: str
    size: str
    steps: int
    n: int
    currency: str
    per_image: str
    price: str
    held: str
    gpu_hour: str | None
