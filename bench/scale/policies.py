"""Rules that size a fleet, each from what an autoscaler can see."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jobstore.protocol import Lane
from jobstore.rules.scaling import wanted_workers
from safelight.config import ScalingSettings


@dataclass(frozen=True, slots=True)
class Seen:
    """A lane at a moment: jobs, the device time they are expected to take, the devices that would keep up with what
    came in lately, the oldest wait, the workers that have started, and how many jobs they hold at once."""

    queued: int
    running: int
    waiting_s: float
    arriving: float
    oldest_s: float
    workers: int
    slots: int


Policy = Callable[[Seen], int]
"""How many workers there should be."""


def fixed(workers: int) -> Policy:
    """Always so many."""
    return lambda _: workers


def by_depth(each: int, most: int) -> Policy:
    """A worker for so many jobs that wait or run: KEDA's trigger on a queue's length."""
    return lambda seen: min(most, max(1, math.ceil((seen.queued + seen.running) / each)))


def by_oldest(target_s: float, most: int) -> Policy:
    """The fleet grows and shrinks by the ratio of the oldest wait to the target, as a HorizontalPodAutoscaler does."""

    def size(seen: Seen) -> int:
        ratio = seen.oldest_s / target_s
        return min(most, max(1, math.ceil(seen.workers * ratio) if abs(ratio - 1) > 0.1 else seen.workers))

    return size


def by_drain(target_s: float, most: int) -> Policy:
    """As many as start all that waits within the target, whoever is busy."""
    return lambda seen: min(most, max(1, math.ceil(seen.waiting_s / target_s)))


def safelight(target_s: float, most: int) -> Policy:
    """The rule that ``GET /v1/scaling`` answers by."""
    rule = ScalingSettings(target_s=target_s, min_workers=1, max_workers=most)

    def size(seen: Seen) -> int:
        lane = Lane(
            name="default",
            queued=seen.queued,
            running=seen.running,
            waiting_s=seen.waiting_s,
            oldest_s=seen.oldest_s,
            devices=seen.workers,
            slots=seen.slots,
        )
        return wanted_workers(lane, seen.arriving, rule)

    return size
