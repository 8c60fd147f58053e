"""How many workers a lane should have."""

from __future__ import annotations

import math

from jobstore.protocol import Lane
from safelight.config import ScalingSettings

LATELY_S = 120.0
"""In how many seconds it is counted what a lane's jobs come to: long enough to be steady, short enough to follow."""
_BUSY = 0.9  # of a device's time: one that is to be busy always lets its queue grow without end
_LATE = 1.5  # targets that a job waits before the expectations are not believed any more


def wanted_workers(lane: Lane, arriving: float, rule: ScalingSettings) -> int:
    """As many as keep up with what comes in, nine tenths busy, and as many more as start what waits within the target.

    ``arriving`` is what the store's ``arriving`` says of ``LATELY_S`` seconds. Never fewer than hold what runs. Where
    jobs have waited for much longer than the target, more is expected of a device than it does: then as many times
    more than there are as the wait is too long, at most twice as many at a look. A lane that is paused wants what runs.
    ``docs/scaling.md`` shows by simulation what this does beside other rules.
    """
    each = max(lane.slots / lane.devices, 1.0) if lane.devices else 1.0
    wanted = 0.0
    if lane.paused_at is None:
        wanted = arriving / _BUSY + lane.waiting_s / rule.target_s
        late = lane.oldest_s / rule.target_s
        if late > _LATE:
            wanted = max(wanted, lane.devices * min(late, 2.0), 1.0)
    wanted = max(wanted, lane.running / each)
    return min(max(math.ceil(wanted), rule.min_workers), rule.max_workers)
