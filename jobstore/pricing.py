"""What a request costs: of the resolved request alone, so that a default costs what it stands for."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from jobstore.job import JobRequest
from safelight.config import ModelSettings


class Price(NamedTuple):
    """``most`` is what a job is charged, or at most where ``rate`` is the price of an hour of its device time."""

    most: Decimal
    rate: Decimal | None


def price_of(request: JobRequest, model: ModelSettings) -> Price:
    """The price of a request: that of one picture, n times. Steps count as asked for, the cache doesn't."""
    pricing = model.prices
    one = pricing.per_picture(request.width, request.height, request.steps, len(request.adapters))
    return Price(one * request.n, pricing.rate)
