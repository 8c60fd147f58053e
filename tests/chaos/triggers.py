"""Faults inside a process, which no signal from outside could place as exactly. A job picks its own by its prompt.

``"a red circle [crash:1]"`` kills the process that renders it, the first time only; without a number it does so every
time. Other faults wait for a file of their name in the folder that ``SAFELIGHT_CHAOS`` names.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "SAFELIGHT_CHAOS"
SKEW = "SAFELIGHT_CHAOS_SKEW_S"
STEP_LIMIT = "SAFELIGHT_CHAOS_STEP_LIMIT_S"  # how long a step may take before the engine counts as hung

FULL = "outputs-are-full"
DIE_AT_RING = "die-at-the-ring"

_TAG = re.compile(r"\[(?P<name>[a-z-]+)(?::(?P<times>\d+))?\]")


def install() -> None:
    """Put the faults into this process, before Safelight's command runs."""
    from actors import retries
    from actors.bell import BrokerBell
    from actors.engine import engine, simulated
    from actors.settle import Settler
    from jobstore.outputs import ObjectOutputs

    folder = Path(os.environ[FOLDER])
    _shift_clock(float(os.environ.get(SKEW, "0")))
    patch: Any = setattr
    patch(engine, "Limits", functools.partial(engine.Limits, step_s=float(os.environ.get(STEP_LIMIT, "1"))))
    patch(simulated.SimulatedModel, "admit", _admitting(simulated.SimulatedModel.admit, folder))
    patch(Settler, "settle", _settling(Settler.settle, folder))
    patch(ObjectOutputs, "put", _putting(ObjectOutputs.put, folder))
    patch(BrokerBell, "ring", _ringing(BrokerBell.ring, folder))
    for code in retries.RETRIED:
        retries.RETRIED[code] = retries.Backoff(0.2, 1.0)


def due(prompt: str, name: str, folder: Path, key: object = "") -> bool:
    """True when the prompt asks for the fault ``name`` once more. Processes share the count."""
    for tag in _TAG.finditer(prompt):
        if tag["name"] == name:
            return tag["times"] is None or _counted(folder, f"{name} {prompt} {key}", int(tag["times"]))
    return False


def _counted(folder: Path, what: str, times: int) -> bool:
    stem = hashlib.sha256(what.encode()).hexdigest()[:24]
    for number in range(times):
        try:
            (folder / f"{stem}.{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def die() -> None:
    """kill -9 for this process."""
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def _admitting(admit: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    from actors.engine.errors import BadOutputError, OutOfMemoryError

    def wrapped(self: Any, request: Any) -> Any:
        faults: dict[str, Callable[[], object]] = {
            "crash": die,
            "hang": threading.Event().wait,
            "oom": lambda: _throw(OutOfMemoryError("the simulated device has no memory left")),
            "bad": lambda: _throw(BadOutputError("the simulated device gave no picture")),
            "fail": lambda: _throw(RuntimeError("the simulated device broke")),
        }
        for name, fault in faults.items():
            if due(request.prompt, name, folder, request.seeds):
                fault()
        return admit(self, request)

    return wrapped


def _settling(settle: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    async def wrapped(self: Any, held: Any, outcome: Any) -> Any:
        job = held.lease.job
        if due(job.request.prompt, "die-before-finish", folder, job.request.seed):
            die()
        settled = await settle(self, held, outcome)
        if due(job.request.prompt, "die-after-finish", folder, job.request.seed):
            die()
        return settled

    return wrapped


def _putting(put: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    async def wrapped(self: Any, key: str, data: bytes, media_type: str) -> None:
        if (folder / FULL).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await put(self, key, data, media_type)

    return wrapped


def _ringing(ring: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    def wrapped(self: Any, lane: str) -> None:
        if "api" in sys.argv:
            with suppress(FileNotFoundError):
                (folder / DIE_AT_RING).unlink()
                die()
        ring(self, lane)

    return wrapped


def _throw(error: Exception) -> None:
    raise error


def _shift_clock(seconds: float) -> None:
    """Let this process's time of day be wrong by ``seconds``."""
    if not seconds:
        return
    real, real_ns = time.time, time.time_ns
    patch: Any = setattr
    patch(time, "time", lambda: real() + seconds)
    patch(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))
