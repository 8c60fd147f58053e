"""Where an answer that is not there yet is fetched, and when: 202 with ``Location``, or in Bifrost's form."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import httpx

from actors.providers.orders import ProviderRefusedError

_ASYNC_ID = "x-bf-async-id"
_SHORTEST_S, _LONGEST_S = 0.1, 10.0
_FIRST_S = 0.5
_MOST_CHARS = 100
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]+")


class Poll(NamedTuple):
    """How to ask whether the pictures are there."""

    url: str
    headers: dict[str, str]


def poll_of(name: str, url: str, headers: Mapping[str, str]) -> Poll:
    """What a 202 to a POST to ``url`` says (``name`` is the model that was asked for).

    An address elsewhere is not asked: it would be sent the key. Raises ProviderRefusedError: the provider renders what
    can't be fetched, and would again whenever it is asked.
    """
    job = headers.get(_ASYNC_ID, "")
    if job and job.isascii() and job.isprintable():
        return Poll(url, {_ASYNC_ID: job})
    told = headers.get("location", "")
    if not told:
        raise ProviderRefusedError(f"the provider of {name} answered 202 without a Location: it can't be polled")
    asked = httpx.URL(url)
    try:
        # By the parser that the request is made with: none may see another host than this does.
        place = asked.join(told)
    except (httpx.InvalidURL, ValueError) as error:
        words = f"the provider of {name} answered 202 with a Location that is no address"
        raise ProviderRefusedError(words) from error
    if _origin(place) != _origin(asked) or place.userinfo:
        raise ProviderRefusedError(
            f"the provider of {name} answered 202 with a Location at {_shown(place)}, which is not followed: base_url "
            f"is at {_shown(asked)}. Set base_url to where the Location points, or have the proxy in front of the "
            "provider pass on Host and X-Forwarded-Proto"
        )
    return Poll(str(place), {})


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


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _shown(url: httpx.URL) -> str:
    port = "" if url.port is None else f":{url.port}"
    return _UNPRINTABLE.sub("", f"{url.scheme}://{url.host}{port}")[:_MOST_CHARS]
