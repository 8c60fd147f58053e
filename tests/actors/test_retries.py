"""The table of retries."""

from __future__ import annotations

import pytest

from actors.retries import RETRIED, retry_in_s
from jobstore.job import JobError


@pytest.mark.parametrize("code", ["deadline_exceeded", "invalid_request", "canceled", "something_new"])
def test_final_errors(code: str) -> None:
    """Another try would end alike."""
    assert retry_in_s(JobError(code=code, message=""), attempts=1) is None


@pytest.mark.parametrize("code", RETRIED)
def test_pauses_double_up_to_a_bound(code: str) -> None:
    """Later attempts wait longer, none for ever."""
    pauses = [retry_in_s(JobError(code=code, message=""), attempts) for attempts in (1, 2, 20)]
    first, second, late = (pause or 0 for pause in pauses)
    assert 0 < first < second == 2 * first
    assert late == 60
