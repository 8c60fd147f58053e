"""How long torch's threads wait for each other awake."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = "import os, actors.engine; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("given", "told"), [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_a_moment_unless_somebody_says_otherwise(given: dict[str, str], told: str) -> None:
    """Before torch is loaded, which reads it then."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told
