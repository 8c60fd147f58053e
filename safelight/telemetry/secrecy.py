"""Which names say that the value is a secret: it is left out of logs and traces, whoever put it there."""

from __future__ import annotations

import itertools
import re

_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "passphrase",
     "passwd", "password", "passwords", "pwd", "secret", "secrets", "signature", "token"}
)  # fmt: skip
_KEYS = frozenset({"access", "api", "encryption", "master", "private", "secret", "signing"})
_WHOLE = frozenset({"key", "x-bf-vk"})
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # of snake_case, kebab-case and camelCase, without digits


def is_secret(name: str) -> bool:
    """True where what is called so is not to be told: by a word of the name, and not by a part of a word."""
    if name.lower() in _WHOLE:
        return True
    parts = [part.lower() for part in _PART.findall(name)]
    pairs = itertools.pairwise(parts)
    return not _WORDS.isdisjoint(parts) or any(first in _KEYS and second == "key" for first, second in pairs)
