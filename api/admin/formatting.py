"""How templates show times, amounts and sizes: filters of the template engine."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from markupsafe import Markup

NOTHING = "—"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_CENTS = Decimal("0.01")


def ago(at: datetime | str | None) -> Markup | str:
    """How long ago, or in how long, with the exact time behind it."""
    if at is None:
        return NOTHING
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    seconds = (datetime.now(UTC) - moment).total_seconds()
    words = f"{duration(seconds)} ago" if seconds >= 1 else "now" if seconds > -1 else f"in {duration(-seconds)}"
    return _time(moment, words)


def at(moment: datetime | str | None) -> Markup | str:
    """The exact time, to the second, in UTC, and says so."""
    if moment is None:
        return NOTHING
    known = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return _time(known, known.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))


def duration(seconds: float | Decimal | None) -> str:
    """The two largest units: ``3 min 5 s``; below a minute with a tenth where that says something."""
    if seconds is None:
        return NOTHING
    left = float(seconds)
    if left < 10:
        return f"{left:.1f}".rstrip("0").rstrip(".") + " s"
    whole = int(left)
    parts: list[str] = []
    for size, name in _UNITS:
        count, whole = divmod(whole, size)
        if count or (parts and name != "s"):
            parts.append(f"{count} {name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def money(amount: Decimal | str | None, currency: str = "") -> Markup | str:
    """At least two decimals and all that it has, thousands apart: ``1,234.50 USD``."""
    if amount is None:
        return NOTHING
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        return str(amount)
    short = exact.normalize()
    shown = exact.quantize(_CENTS) if short == exact.quantize(_CENTS) else short
    return Markup('<span class="money">{}{}</span>').format(f"{shown:,f}", f" {currency}" if currency else "")


def count(number: int | None) -> str:
    """With thousands apart."""
    return NOTHING if number is None else f"{number:,}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of one: ``99.5 %``; what isn't known is a dash."""
    return NOTHING if share is None else f"{share * 100:.{digits}f} %".replace(f".{'0' * digits} %", " %")


def size(bytes_: float | None) -> str:
    """In the largest unit that leaves a number over one: ``1.5 GiB``."""
    if bytes_ is None:
        return NOTHING
    left, unit = float(bytes_), 0
    while left >= 1024 and unit < len(_SIZES) - 1:
        left, unit = left / 1024, unit + 1
    return f"{left:.1f}".rstrip("0").rstrip(".") + f" {_SIZES[unit]}"


def short_id(identity: object) -> Markup | str:
    """The end of a UUID, which tells those of one moment apart, with the whole behind it."""
    if identity is None:
        return NOTHING
    text = str(identity)
    return Markup('<span class="mono" title="{}">…{}</span>').format(text, text[-8:])


FILTERS = {
    "ago": ago, "at": at, "duration": duration, "money": money, "count_of": count, "percent": percent,
    "size": size, "short_id": short_id,
}  # fmt: skip


def _time(moment: datetime, words: str) -> Markup:
    exact = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact, words)
