"""How often a client may do something a minute, in this process."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable

from api.problems import ProblemError

_MINUTE_S = 60.0


class MinuteLimit:
    """Counts by whole minutes, and forgets the last one: what it remembers is bounded by what a minute brings."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._minute = -1
        self._counts: Counter[Hashable] = Counter()

    def take(self, who: Hashable, what: str) -> None:
        """Count one. Raises ProblemError, a 429 that says when to come again, where ``who`` has had its share."""
        minute, gone_s = divmod(self._clock(), _MINUTE_S)
        if minute != self._minute:
            self._minute, self._counts = int(minute), Counter()
        if self._counts[who] >= self._most:
            wait_s = max(1, math.ceil(_MINUTE_S - gone_s))
            detail = f"at most {self._most} {what} a minute; try again in {wait_s} s"
            raise ProblemError(429, "rate_limited", detail, headers={"Retry-After": str(wait_s)})
        self._counts[who] += 1
