"""What goes to a rank and what comes back. Small and picklable; tensors travel in shared memory (``arena.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from actors.engine.devices import Device
    from actors.engine.families.base import Inputs
    from actors.engine.stepping import BatchKey
    from safelight.config import EngineSettings, ModelSettings


LOAD_S = 3600.0
"""Seconds that ranks have to load: weights may be downloaded first, and one rank may wait for another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A rank's place in its group, and what it is to load."""

    rank: int
    size: int
    device: Device
    model: ModelSettings
    engine: EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The first thing that a rank hears.

    ``program`` is the class that does its work, as ``module:Class``; ``folder`` is where its group meets. ``cores``
    bounds its threads on a CPU; None leaves them alone. ``timeout_s`` bounds each exchange with other ranks.
    """

    seat: Seat
    program: str
    folder: str
    timeout_s: float
    cores: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Passes of the denoiser that a rank takes part in.

    ``key`` is None for a call of a whole pipeline: then ``passes`` has one element whose ``shared`` are the arguments.
    ``answers`` says whether the rank's tensors are wanted; the others' are not sent. ``note`` is the kind's own.
    """

    passes: tuple[Inputs, ...]
    key: BatchKey | None = None
    answers: bool = True
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """A rank has loaded: bytes of the weights that it holds."""

    weights: int


@dataclass(frozen=True, slots=True)
class Done:
    """An order is done: its packed tensors, and the most memory that the rank has had so far, in bytes."""

    tensors: bytes
    peak: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Why it is not: ``model`` and ``memory`` are what the engine's errors are called after, ``link`` is the way
    between ranks, ``device`` a device that is lost, ``order`` anything else.
    """

    kind: Literal["model", "memory", "device", "link", "order"]
    words: str


Reply = Ready | Done | Failed
