"""``[keys]``: how the secrets of API keys are kept."""

from __future__ import annotations

from typing import Any

from safelight.config.base import Base

MIN_PEPPER = 32
"""Characters. Fewer could be found out by trying, and then the pepper would hide nothing."""


class KeySettings(Base, frozen=True, kw_only=True):
    """``pepper`` is the server's own secret that goes into the digests of keys' secrets; empty for none."""

    pepper: str = ""

    def __post_init__(self) -> None:
        """Check what types can't say. Raises ValueError, which msgspec turns into an error that names the table."""
        if self.pepper and len(self.pepper) < MIN_PEPPER:
            raise ValueError(f"the pepper has {len(self.pepper)} characters; take {MIN_PEPPER} or more, by chance")
        if not self.pepper.isascii() or not self.pepper.isprintable() or self.pepper != self.pepper.strip():
            raise ValueError("the pepper must be printable ASCII, without blanks around it")

    def __repr__(self) -> str:
        """Without the pepper: settings may be logged."""
        return f"KeySettings(pepper={'…' if self.pepper else ''!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for rich, which looks into structs by itself."""
        return [("pepper", "…" if self.pepper else "")]
