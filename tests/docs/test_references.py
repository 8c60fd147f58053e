"""The tests that a page names as its proof are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
NAMED = re.compile(r"`([a-z0-9_/]+\.py)(?:::(test_\w+))?`")


def test_every_test_that_the_security_page_names_is_there() -> None:
    """By file and name."""
    named = NAMED.findall((DOCS / "security.md").read_text())
    assert len(named) > 30
    for file, test in named:
        path = TESTS / file
        assert path.is_file(), file
        assert not test or re.search(rf"^(async )?def {test}\(", path.read_text(), re.M), f"{file} has no {test}"
