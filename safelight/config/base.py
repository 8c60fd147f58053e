"""What every table of the settings is."""

from __future__ import annotations

from msgspec import Struct


class Base(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the settings: immutable, and a key it doesn't know is an error that names it."""
