"""Times that lie behind, on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from safelight.cli.client.times import past_of
from safelight.cli.exits import RefusedError


@pytest.mark.parametrize(
    ("text", "ago"),
    [("2h", timedelta(hours=2)), ("30m", timedelta(minutes=30)), ("1d", timedelta(days=1)), ("0s", timedelta())],
)
def test_a_span_is_so_long_ago(text: str, ago: timedelta) -> None:
    """From the moment at which it is asked."""
    before = datetime.now(UTC)
    told = past_of("--after", text)
    assert told is not None
    assert before - ago <= datetime.fromisoformat(told) <= datetime.now(UTC) - ago


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2030-01-31T12:00:00", "2030-01-31T12:00:00+00:00"),
        ("2030-01-31", "2030-01-31T00:00:00+00:00"),
        ("2030-01-31T12:00:00+02:00", "2030-01-31T12:00:00+02:00"),
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00+00:00"),
    ],
)
def test_a_time_without_a_zone_is_of_utc(text: str, told: str) -> None:
    """As on the admin pages; one with a zone stays as it is."""
    assert past_of("--after", text) == told


@pytest.mark.parametrize("text", ["yesterday", "2 hours", "-1h", "1y", "999999w", ""])
def test_what_is_no_time_is_refused_with_what_would_be(text: str) -> None:
    """By the option's name."""
    with pytest.raises(RefusedError, match="--after") as refused:
        past_of("--after", text)
    assert "2h" in refused.value.hint
