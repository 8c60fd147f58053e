"""The table of retries."""

from __future__ import annotations

import pytest

from actors.retries import FINAL, RETRIED, retry_in_s
from jobstore.job import JobError


@pytest.mark.parametrize("code", [*sorted(FINAL), "something_new"])
def test_final_errors(code: str) -> None:
    """Another try would end alike."""
    assert retry_in_s(JobError(code=code, message=""), attempts=1) is None


@pytest.mark.parametrize("code", RETRIED)
def test_pauses_double_up_to_a_bound(code: str) -> None:
    """Later attempts wait longer, none for ever, and no two jobs come back together."""
    bounds = [RETRIED[code].bound(attempts) for attempts in (1, 2, 20)]
    assert 0 < bounds[0] < bounds[1] == 2 * bounds[0] < bounds[2] == RETRIED[code].longest_s
    for attempts, bound in zip((1, 2, 20), bounds, strict=True):
        pauses = {retry_in_s(JobError(code=code, message=""), attempts) or 0 for _ in range(20)}
        assert len(pauses) > 1
        assert all(bound / 2 <= pause <= bound for pause in pauses)


def test_every_code_has_its_place() -> None:
    """No code is both tried again and final."""
    assert not RETRIED.keys() & FINAL
