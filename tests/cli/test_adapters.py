"""Adapters on the command line."""

from __future__ import annotations

import pytest

from safelight.cli.client.submit import adapters_of
from safelight.cli.exits import RefusedError


def test_names_and_weights() -> None:
    """All with a weight, or none."""
    assert adapters_of([]) == []
    assert adapters_of(["ink", "mist"]) == ["ink", "mist"]
    assert adapters_of(["ink=0.5", "mist=-1"]) == {"ink": 0.5, "mist": -1.0}
    assert adapters_of(["ink=0"]) == {"ink": 0.0}


@pytest.mark.parametrize(
    ("given", "words"),
    [(["ink=0.5", "mist"], "or none"), (["ink=much"], "much"), (["ink=1", "ink=2"], "twice")],
)
def test_what_can_t_be_meant_is_refused(given: list[str], words: str) -> None:
    """Before anything is sent."""
    with pytest.raises(RefusedError, match=words):
        adapters_of(given)
