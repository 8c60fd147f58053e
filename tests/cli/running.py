"""Settings for tests, and the command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.processes import REPOSITORY, Server

MODEL = f"""
[models.scenes]
model = "{REPOSITORY}/models/scenes-flux"
family = "flux"
dtype = "float32"
steps = 8
guidance = 0.0
sizes = ["128x128", "64x64"]
max_sequence_length = 24
price = "0.01"
"""


@dataclass(frozen=True)
class Embedded:
    """A running ``safelight up``, its folder, and the environment that it was started with."""

    server: Server
    folder: Path
    environment: dict[str, str]


def write_settings(folder: Path, extra: str = "", device: str = "auto") -> dict[str, str]:
    """Settings in ``folder`` with the small model; the environment that points to them.

    Loading torch takes most of a start: whoever looks at no picture takes ``simulated`` as the ``device``.
    """
    file = folder / "safelight.toml"
    file.write_text(f'[worker]\nslots = 1\ndevice = "{device}"\n[jobs]\nmax_steps = 1000\n' + extra + MODEL)
    return {"SAFELIGHT_CONFIG": str(file), "SAFELIGHT_HOME": str(folder / "home")}


def run_safelight(
    *arguments: str, environment: dict[str, str], limit_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m safelight ARGUMENTS`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "safelight", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
