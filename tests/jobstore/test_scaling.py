"""How many workers a lane should have."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jobstore.protocol import Lane
from jobstore.rules.scaling import wanted_workers
from safelight.config import ScalingSettings

RULE = ScalingSettings(target_s=60, min_workers=0, max_workers=50)
LOADS = st.builds(
    Lane,
    name=st.just("default"),
    queued=st.integers(0, 10**6),
    running=st.integers(0, 10**4),
    waiting_s=st.floats(0, 10**9),
    oldest_s=st.floats(0, 10**6),
    devices=st.integers(0, 1000),
    slots=st.integers(0, 10**4),
)


def wanted(arriving: float = 0.0, **load: float) -> int:
    """By the rule, for a lane under that load."""
    return wanted_workers(Lane(name="default", **load), arriving, RULE)  # type: ignore[arg-type]


def test_what_waits_is_started_within_the_target() -> None:
    """Beside what comes in, and never fewer than hold what runs with their slots full."""
    assert wanted() == 0
    assert wanted(queued=1, waiting_s=2.0) == 1
    assert wanted(queued=100, waiting_s=240.0) == 4
    assert wanted(1.8, queued=100, waiting_s=240.0, running=16, devices=2, slots=16) == 6
    assert wanted(1.81) == 3, "nine tenths busy"
    assert wanted(running=3, devices=3, slots=24) == 1, "one worker would hold them all"
    assert wanted(running=3, devices=0) == 3, "whose workers are not told"


def test_who_waits_too_long_is_helped_whatever_was_expected() -> None:
    """By as much as the wait is too long, and not more than doubled at a look."""
    assert wanted(queued=9, waiting_s=0.1, oldest_s=80.0, devices=4, slots=32) == 1
    assert wanted(queued=9, waiting_s=0.1, oldest_s=105.0, devices=4, slots=32) == 7
    assert wanted(queued=9, waiting_s=0.1, oldest_s=9000.0, devices=4, slots=32) == 8
    assert wanted(queued=1, waiting_s=0.0, oldest_s=91.0) == 1


def test_a_paused_lane_wants_what_runs() -> None:
    lane = Lane(name="default", queued=900, waiting_s=9e9, oldest_s=9e9, running=9, devices=4, slots=32)
    assert wanted_workers(lane, 2.0, RULE) == RULE.max_workers
    assert wanted_workers(replace(lane, paused_at=datetime.now(UTC)), 99.0, RULE) == 2


@given(LOADS, st.floats(0, 10**6), st.floats(0, 10**4))
def test_more_work_never_wants_fewer(lane: Lane, more_s: float, arriving: float) -> None:
    """And it stays within the bounds."""
    before = wanted_workers(lane, arriving, RULE)
    assert RULE.min_workers <= before <= RULE.max_workers
    more = replace(lane, queued=lane.queued + 1, waiting_s=lane.waiting_s + more_s)
    assert wanted_workers(more, arriving, RULE) >= before
