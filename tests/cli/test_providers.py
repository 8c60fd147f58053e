"""Remote models at the command: what doctor says of them, and that their workers need no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from safelight.cli.doctor.check import Status
from safelight.cli.doctor.plan import chosen_model
from safelight.cli.doctor.providers import check_providers
from safelight.cli.exits import RefusedError
from safelight.config import Settings, load_settings
from tests.e2e.processes import REPOSITORY

REMOTE = """
default_model = "far"
broker = "memory"
[models.far.provider]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "flux"
api_key_env = "FAR_KEY"
[models.other.provider]
kind = "litellm"
model = "x/y"
"""

# What a worker of remote lanes does at its start, where nothing that renders is installed.
WITHOUT_TORCH = """
import sys
for name in ("torch", "diffusers", "transformers", "accelerate", "safetensors", "numpy", "peft", "litellm"):
    sys.modules[name] = None
from actors.bell import BrokerBell
from actors.broker import make_broker
from actors.renderer import NoEngine
from actors.worker import WorkerProcess
from jobstore.outputs import open_outputs
from safelight.cli.server.worker import with_worker
from safelight.config import load_settings
from pathlib import Path
import safelight.cli.server.site

settings = with_worker(load_settings(Path(sys.argv[1]), {}), {"lanes": ["remote"]})
broker = make_broker("memory")
worker = WorkerProcess(settings, None, open_outputs(Path(sys.argv[2]).as_uri()), broker, BrokerBell(broker), None)
assert isinstance(worker.engine, NoEngine) and worker.healthy
print(settings.slots)
"""


def load(folder: Path) -> Settings:
    """The settings of two remote models."""
    file = folder / "safelight.toml"
    file.write_text(REMOTE)
    return load_settings(file, {})


def test_doctor_tells_of_a_secret_that_is_missing(tmp_path: Path) -> None:
    """By the variable's name, and what to do; nobody is asked."""
    far, other = check_providers(load(tmp_path), {})
    assert (far.name, far.status) == ("model far", Status.WARN)
    assert "FAR_KEY is not set" in far.detail
    assert other.status is Status.OK
    assert [check.status for check in check_providers(load(tmp_path), {"FAR_KEY": "k"})] == [Status.OK] * 2


def test_doctor_tells_of_a_secret_in_the_clear(tmp_path: Path) -> None:
    """Over http to another machine."""
    file = tmp_path / "safelight.toml"
    file.write_text(REMOTE.replace("127.0.0.1", "images.example.org"))
    far, _ = check_providers(load_settings(file, {}), {"FAR_KEY": "k"})
    assert (far.status, "in the clear" in far.detail) == (Status.WARN, True)


def test_doctor_plans_no_memory_of_a_remote_model(tmp_path: Path) -> None:
    """There is none."""
    with pytest.raises(RefusedError, match="remote"):
        chosen_model(load(tmp_path), None)


def test_a_process_that_is_everything_serves_remote_lanes(tmp_path: Path) -> None:
    """Beside those that its settings name."""
    assert load(tmp_path).with_remote_lanes().worker.lanes == ("default", "remote")


def test_a_worker_of_remote_lanes_needs_no_torch(tmp_path: Path) -> None:
    """Nor anything else that renders; it holds as many jobs as its providers are asked for at once."""
    load(tmp_path)
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "safelight.toml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == 8
