"""What goes wrong with settings."""

from __future__ import annotations


class ConfigError(Exception):
    """The settings can't be used; the message names the file and the key, and says what is expected."""
