"""Amounts of money in words."""

from __future__ import annotations

from decimal import Decimal

_CENTS = Decimal("0.01")


def in_words(amount: Decimal, currency: str) -> str:
    """At least two decimals, and all that it has: ``0.10 USD``."""
    short = amount.normalize()
    cents = amount.quantize(_CENTS)
    return f"{cents if short == cents else short:f} {currency}"
