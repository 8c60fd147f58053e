"""Where an answer that is not there yet is fetched, and when: 202 with ``Location``, or in Bifrost's form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

_ASYNC_ID = "x-bf-async-id"
_SHORTEST_S, _LONGEST_S = 0.1, 10.0
_FIRST_S = 0.5


class Poll(NamedTuple):
    """How to ask whether the pictures are there."""

    url: str
    headers: dict[str, str]


def poll_of(url: str, headers: Mapping[str, str]) -> Poll | None:
    """What a 202 to a POST to ``url`` says; None where it says nothing that can be used.

    An address elsewhere is not asked: it would be sent the key.
    """
    job = headers.get(_ASYNC_ID, "")
    if job and job.isascii() and job.isprintable():
        return Poll(url, {_ASYNC_ID: job})
    place = urljoin(url, headers.get("location", ""))
    if place == url or _origin(place) != _origin(url):
        return None
    return Poll(place, {})


def poll_pause(headers: Mapping[str, str], polls: int) -> float:
    """Seconds until the next poll: as the answer says, within bounds, else longer each time."""
    for name, unit in (("openai-poll-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            told = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(told):
            return min(max(told, _SHORTEST_S), _LONGEST_S)
    return min(_FIRST_S * 1.5**polls, _LONGEST_S)


def _origin(url: str) -> tuple[str, str]:
    place = urlsplit(url)
    return place.scheme, place.netloc
