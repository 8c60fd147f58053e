"""Prices: exact, monotone, n times that of one picture, and settings that say what can't be meant."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobstore.job import JobRequest
from jobstore.pricing import price_of
from safelight.config import ConfigError, ModelSettings, PricingSettings
from safelight.config.reading import parse_settings

AMOUNTS = st.decimals(0, 9, places=9).map(lambda value: format(value, "f"))
SIDES = st.integers(1, 8192)
STEPS = st.integers(1, 1000)
BY_PICTURE = st.builds(
    PricingSettings,
    per_image=AMOUNTS, per_megapixel=AMOUNTS, per_megapixel_step=AMOUNTS, per_adapter=AMOUNTS, minimum=AMOUNTS,
)  # fmt: skip


def priced(width: int = 1024, height: int = 1024, steps: int = 20, n: int = 1, **pricing: Any) -> Decimal:
    """What a request costs, in so many cents' fractions."""
    request = JobRequest(model="m", prompt="p", width=width, height=height, steps=steps, n=n, seed=1)
    return price_of(request, ModelSettings(model="a/b", pricing=PricingSettings(**pricing))).most


@given(BY_PICTURE, SIDES, SIDES, STEPS, st.integers(0, 4))
def test_more_never_costs_less(pricing: PricingSettings, width: int, height: int, steps: int, adapters: int) -> None:
    """Of size, steps and adapters; nothing is negative, and nothing has more than 9 decimals."""
    price = pricing.per_picture(width, height, steps, adapters)
    assert price >= 0
    assert price == price.quantize(Decimal("1E-9"))
    assert price <= pricing.per_picture(width + 1, height, steps, adapters)
    assert price <= pricing.per_picture(width, height + 1, steps, adapters)
    assert price <= pricing.per_picture(width, height, steps + 1, adapters)
    assert price <= pricing.per_picture(width, height, steps, adapters + 1)


@given(SIDES, STEPS, st.integers(1, 10), AMOUNTS)
def test_so_many_pictures_cost_so_many_times_as_much(side: int, steps: int, n: int, price: str) -> None:
    """To the last decimal: each is rounded by itself."""
    pricing: dict[str, Any] = {"per_megapixel_step": price, "per_image": "0.000000001"}
    assert priced(side, side, steps, n, **pricing) == n * priced(side, side, steps, **pricing)


@pytest.mark.parametrize(
    ("pricing", "said"),
    [
        ({"per_image": "0.04"}, "0.04"),
        ({"per_megapixel": "0.01"}, "0.01048576"),
        ({"per_megapixel_step": "0.0005"}, "0.01048576"),
        ({"per_image": "0.01", "sizes": {"1024x1024": "0.04", "512x512": "0.02"}}, "0.04"),
        ({"per_image": "0.01", "minimum": "0.03"}, "0.03"),
        ({"gpu_hour": "2.50", "max_per_image": "0.2"}, "0.2"),
    ],
)
def test_prices_of_a_square_in_twenty_steps(pricing: dict[str, Any], said: str) -> None:
    """As docs/pricing.md works them out."""
    assert priced(**pricing) == Decimal(said)


def test_halves_are_rounded_up() -> None:
    """Half a megapixel at a billionth."""
    assert priced(1000, 500, per_megapixel="0.000000001") == Decimal("0.000000001")
    assert priced(1000, 499, per_megapixel="0.000000001") == 0


def test_device_time_costs_by_the_hour() -> None:
    """As it stands in the settings: the division comes when the time is known."""
    assert PricingSettings(gpu_hour="2.50", max_per_image="1").rate == Decimal("2.50")
    assert PricingSettings(gpu_hour="3.60", max_per_image="1").rate == Decimal("3.60")
    assert PricingSettings(per_image="1").rate is None


def test_price_is_short_for_a_picture() -> None:
    """Whatever its size."""
    model = ModelSettings(model="a/b", price="0.002")
    assert {model.prices.per_picture(side, side, side) for side in (64, 1024)} == {Decimal("0.002")}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('price = "1"\npricing = {per_image = "1"}', "write one of them"),
        ('pricing = {per_image = "-1"}', r"pricing.*per_image '-1' is not an amount"),
        ('pricing = {per_image = "1e3"}', "not an amount"),
        ('pricing = {per_image = "٣"}', "not an amount"),
        ('pricing = {per_megapixel = "0.0000000001"}', "9 decimals"),
        ("pricing = {per_image = 0.1}", "Expected `str`"),
        ('pricing = {per_pixel = "1"}', "did you mean"),
        ('pricing = {sizes = {"10" = "1"}}', "pricing"),
        ('sizes = ["64x64"]\npricing = {sizes = {"64x65" = "1"}}', "64x65 is not in sizes"),
        ('pricing = {gpu_hour = "2"}', "wants max_per_image"),
        ('pricing = {max_per_image = "2"}', "wants gpu_hour"),
        ('pricing = {gpu_hour = "2", max_per_image = "2", per_image = "1", sizes = {"64x64" = "1"}}',
         "leave out per_image, sizes"),
        ('pricing = {per_megapixel_step = "1000"}', "more than a million"),
    ],
)  # fmt: skip
def test_what_can_t_be_meant_is_refused_with_words(lines: str, words: str) -> None:
    """Which name the key."""
    text = f'[models.m]\nmodel = "a/b"\n{lines}\n'
    with pytest.raises(ConfigError, match=words):
        parse_settings(text.encode(), Path("safelight.toml"))
