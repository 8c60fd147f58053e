"""A dead or hung engine can be told from a busy one."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from actors.engine import Engine, Limits, StepProgress, Watch
from actors.engine.errors import EngineStoppedError, ModelUnavailableError
from tests.engine.conftest import TIMEOUT_S, ask, scenes


def test_engine_without_its_device_is_dead_and_says_so() -> None:
    """Waiting for it raises the reason; requests are refused or fail."""
    engine = Engine({"scenes": scenes()}, device="cuda:99")
    engine.start()
    with pytest.raises(ModelUnavailableError, match="cuda:99"):
        engine.wait_ready(TIMEOUT_S)
    assert engine.stop(TIMEOUT_S)
    assert not engine.healthy
    with pytest.raises(EngineStoppedError):
        engine.submit(ask())


def test_hung_step_is_noticed_and_recovery_too() -> None:
    """Silence counts only while there is work."""
    engine = Engine({"scenes": scenes()}, device="cpu", limits=Limits(load_s=TIMEOUT_S, step_s=0.05))
    engine.start()
    noticed, reached = threading.Event(), threading.Event()

    def on_progress(progress: StepProgress) -> None:
        if progress.step == 1:
            reached.set()
            noticed.wait(TIMEOUT_S)

    handle = engine.submit(ask(), Watch(on_progress=on_progress))
    assert reached.wait(TIMEOUT_S)
    poll = threading.Event()
    while not engine.hung:
        assert not poll.wait(0.01)
    assert not engine.healthy
    noticed.set()
    assert handle.result(TIMEOUT_S).images
    assert engine.stop(TIMEOUT_S)


def test_idle_engine_is_healthy(engine: Engine) -> None:
    """However long nobody asked for anything."""
    engine.submit(ask()).result(TIMEOUT_S)
    assert engine.healthy
    assert not engine.hung


def test_importing_the_engine_loads_no_torch() -> None:
    """Whoever only holds an engine starts fast."""
    code = "import sys, actors.engine, actors.worker; sys.exit('torch' in sys.modules or 'diffusers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=TIMEOUT_S).returncode == 0
