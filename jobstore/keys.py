"""Secrets of API keys: made here, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "sl_"


def make_secret() -> str:
    """A fresh secret: 256 random bits behind a prefix that scanners for leaked keys can look for."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """What the store keeps: SHA-256, hex. Fast on purpose: 256 random bits can't be guessed, salted or not."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint_of(secret: str) -> str:
    """The start of a secret, for telling keys apart in a list."""
    return secret[: len(PREFIX) + 4] + "…"
