"""Sends a submit until it is answered, and never twice: each try carries the same key."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import httpx

PAUSES_S = (0.25, 0.5, 1.0)
_LONGEST_PAUSE_S = 5.0


def fresh_key() -> dict[str, str]:
    """A header that tells the server which requests are tries of the same submit (docs/idempotency.md)."""
    return {"Idempotency-Key": f'"{uuid4()}"'}


def persist(
    send: Callable[[], httpx.Response],
    pauses_s: tuple[float, ...] = PAUSES_S,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[], None] = lambda: None,
) -> httpx.Response:
    """The answer of ``send``, which is called again after a broken connection or a 5xx, once for each pause.

    A server's ``Retry-After`` lengthens the pause, to 5 seconds at most; ``tell`` is called before each. Raises
    httpx.HTTPError after the last try.
    """
    for pause_s in pauses_s:
        try:
            response = send()
        except httpx.TransportError:
            tell()
            sleep(pause_s)
            continue
        if response.status_code < 500:
            return response
        tell()
        sleep(max(pause_s, _asked_for(response)))
    return send()


def _asked_for(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(_LONGEST_PAUSE_S, float(text)) if text.isascii() and text.isdigit() else 0.0
