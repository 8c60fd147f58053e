"""What a random client may ask of a store."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st
from msgspec.structs import replace

from jobstore.ids import uuid7
from jobstore.job import (
    CacheMode,
    JobRequest,
    PictureFormat,
    Replay,
    Route,
)

KEYS = (None, uuid7(), uuid7())
WEIGHTS = {KEYS[0]: 1.0, KEYS[1]: 1.0, KEYS[2]: 2.0}
LANES = ("a", "b")
FAR = timedelta(days=1)
LONG_AGO_S = -3600.0  # of a deadline: it has passed, and the time of grace for a render that is under way too


class Request(NamedTuple):
    """What a client asks for. ``which`` of four pictures, ``look``: into the cache; so many fallbacks."""

    which: int
    key_id: UUID | None
    price: Decimal
    cache: CacheMode
    priority: int
    format: PictureFormat
    late: bool
    later: bool
    max_attempts: int
    replay: Replay | None
    look: bool
    routes: int


numbers = st.integers(0, 1_000)
requests = st.builds(
    Request,
    which=st.integers(0, 3),
    key_id=st.sampled_from(KEYS),
    price=st.sampled_from([Decimal("0.002"), Decimal("1.000000001"), Decimal(0)]),
    cache=st.sampled_from([CacheMode.USE, CacheMode.USE, *CacheMode]),
    priority=st.sampled_from([5, 5, 5, 0, 4, 6, 9]),
    format=st.sampled_from([PictureFormat.PNG, PictureFormat.PNG, PictureFormat.JPEG]),
    late=st.sampled_from([False] * 4 + [True]),
    later=st.sampled_from([False] * 9 + [True]),
    max_attempts=st.integers(1, 3),
    replay=st.none()
    | st.builds(Replay, key=st.sampled_from("xy"), body_sha256=st.sampled_from(["1", "2"]), renew=st.booleans()),
    look=st.booleans(),
    routes=st.sampled_from([0, 0, 1, 2]),
)


def route(request: JobRequest, which: int) -> Route:
    """To another of the four pictures, which others may ask for by itself, at a price of its own."""
    which %= 4
    width = 64 * (1 + which // 2)
    return Route(
        request=replace(request, width=width, fallback_for=request.model),
        lane=LANES[which % 2],
        batch_key=str(width),
        fingerprint=f"f{which}",
        seedless_fingerprint=f"seedless-f{which}",
        price=Decimal(which) / 1000,
    )
