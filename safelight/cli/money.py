"""Amounts of money, as people read them."""

from __future__ import annotations


def amount(text: str) -> str:
    """A decimal with at least two decimals; none that it has is dropped."""
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def money(text: str, currency: str) -> str:
    """The same with its currency: ``0.10 USD``."""
    return f"{amount(text)} {currency}"
