"""``Prefer`` headers (RFC 7240)."""

from __future__ import annotations

import pytest
from litestar.datastructures import Headers

from api.preferences import Preference, preference_of


@pytest.mark.parametrize(
    ("lines", "preference"),
    [
        ([], Preference()),
        (["respond-async"], Preference(respond_async=True)),
        (["respond-async, wait=10"], Preference(respond_async=True, wait_s=10)),
        (["Wait=5", "Respond-Async"], Preference(respond_async=True, wait_s=5)),
        (['foo; bar="a, b", wait="7"'], Preference(wait_s=7)),
        (["wait=3; x=y, wait=9"], Preference(wait_s=3)),
        (["wait=soon"], Preference()),
        (["wait=-1"], Preference()),
        (["handling=lenient;;;,,=,respond-async"], Preference(respond_async=True)),
        (["x" * 5000 + ", respond-async"], Preference()),
        (["respond-async, wait=5, x=" + "x" * 5000], Preference()),
        (['x="a\\", wait=9", wait=8'], Preference(wait_s=8)),
        (['wait="7'], Preference()),
        (['x="unclosed, wait=7'], Preference()),
        (["a" * 333 + " " * 660 + '"'], Preference()),
        ([" " * 990 + '"'], Preference()),
        (['x="' + "\\a" * 490], Preference()),
    ],
)
def test_preferences_are_read(lines: list[str], preference: Preference) -> None:
    """In any order and case; what can't be read is passed over."""
    assert preference_of(Headers([(b"prefer", line.encode()) for line in lines])) == preference


def test_a_wait_is_bounded() -> None:
    """By what the server holds out; without one, respond-async means at once."""
    assert Preference().seconds(usual=50, most=50) == 50
    assert Preference(respond_async=True).seconds(usual=50, most=50) == 0
    assert Preference(respond_async=True, wait_s=10).seconds(usual=50, most=50) == 10
    assert Preference(wait_s=600).seconds(usual=0, most=50) == 50


def test_what_counted_is_told() -> None:
    """And respond-async only where it was done."""
    assert Preference().applied(waited_s=0, pending=True) == {}
    both = Preference(respond_async=True, wait_s=10)
    assert both.applied(waited_s=10, pending=True) == {"Preference-Applied": "respond-async, wait=10"}
    assert both.applied(waited_s=10, pending=False) == {"Preference-Applied": "wait=10"}
