"""Identifiers: UUIDs that sort by the time they were made (UUIDv7, RFC 9562 section 5.7)."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0
_entropy = b""
_ENTROPY_BYTES = 4096  # fetched at once: asking the system for a few bytes lets another thread take over


def _forget() -> None:
    """A forked process must not draw what its parent draws."""
    global _entropy
    _entropy = b""


os.register_at_fork(after_in_child=_forget)


def first_since(at: float) -> UUID:
    """The least UUIDv7 of a moment, in Unix seconds: those made from then on are not less."""
    return UUID(int=(max(int(at * 1000), 0) << 80) | (0x7 << 76) | (0b10 << 62))


def uuid7() -> UUID:
    """A UUIDv7: 48 bits of Unix milliseconds, then 12 bits of a counter that keeps a process's ids in order."""
    global _last, _entropy
    with _lock:
        if len(_entropy) < 8:
            _entropy = os.urandom(_ENTROPY_BYTES)
        drawn, _entropy = _entropy[:8], _entropy[8:]
        # Milliseconds and counter as one number: it only ever grows, even when the clock steps back.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        stamp, counter = _last >> 12, _last & 0xFFF
    random = int.from_bytes(drawn) & (2**62 - 1)
    return UUID(int=(stamp << 80) | (0x7 << 76) | (counter << 64) | (0b10 << 62) | random)
