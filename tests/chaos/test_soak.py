"""A short soak: a hundred jobs, and as many faults as fit."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.house import Plan
from tests.chaos.report import failed
from tests.chaos.servers import Servers
from tests.chaos.soak import Soak, run_soak

JOBS = 120


def test_nothing_is_lost_doubled_or_charged_twice(servers: Servers, tmp_path: Path) -> None:
    """The same as ``make chaos``, with few jobs in little time."""
    plan = Plan(apis=2, workers=2, lease_s=1.5, step_s=0.02, max_rescues=10)
    outcome = run_soak(Soak(jobs=JOBS, seed=1, plan=plan, minutes=0.2), servers, tmp_path)
    assert outcome.findings.broken == []
    assert outcome.refused == []
    assert outcome.accepted == JOBS
    assert not failed(outcome)
