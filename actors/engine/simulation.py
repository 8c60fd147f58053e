"""The engine's loop in virtual time: what a policy does to hours of arrivals, in seconds and without a device.

The loop, its groups and its doors are the engine's own; the clock moves by what the simulated device's steps take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.engine.admission import Line
from actors.engine.developing import AtOnce
from actors.engine.devices import SIMULATED, Device
from actors.engine.groups import Charge, by_row
from actors.engine.loop import Loop
from actors.engine.marks import Immediate
from actors.engine.observer import Observer, Unobserved
from actors.engine.request import Handle, RenderRequest
from actors.engine.simulated import Pace, SimulatedModels

if TYPE_CHECKING:
    from safelight.config import EngineSettings, ModelSettings


class VirtualClock:
    """A clock that stands still until something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds since the beginning."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes in at an instant, in seconds."""

    at_s: float
    request: RenderRequest


@dataclass(frozen=True, slots=True)
class Departure:
    """A request that is done at an instant; ``batch_rows`` is how many rows shared its steps on average."""

    arrival: Arrival
    done_at_s: float
    device_seconds: float
    batch_rows: float

    @property
    def seconds(self) -> float:
        """From coming in to done."""
        return self.done_at_s - self.arrival.at_s


def simulate(
    arrivals: Sequence[Arrival],
    models: Mapping[str, ModelSettings],
    pace: Pace,
    settings: EngineSettings,
    observer: Observer | None = None,
    charge: Charge = by_row,
) -> list[Departure]:
    """Let the loop render all arrivals, in order of their coming; departures in order of their going.

    ``charge`` decides how groups share the device.

    Raises the first EngineError that a request ends with.
    """
    clock = VirtualClock()
    line = Line(clock)
    place = Device(SIMULATED, SIMULATED)
    loop = Loop(
        line,
        SimulatedModels(models, place, pace, settings, sleep=clock.sleep, draw=None),
        AtOnce(),
        Immediate(),
        settings,
        observer or Unobserved(),
        device=SIMULATED,
        identity=lambda _handle: "",
        clock=clock,
        charge=charge,
    )
    departures: list[Departure] = []
    coming = sorted(arrivals, key=lambda arrival: arrival.at_s)
    come = 0
    while len(departures) < len(coming):
        while come < len(coming) and coming[come].at_s <= clock.now:
            _submit(line, coming[come], clock, departures)
            come += 1
        if not loop.turn() and come < len(coming):
            clock.now = max(clock.now, coming[come].at_s)
    return departures


def _submit(line: Line, arrival: Arrival, clock: VirtualClock, departures: list[Departure]) -> None:
    handle = Handle(arrival.request)

    def leave(_future: object) -> None:
        result = handle.result(0)
        departures.append(Departure(arrival, clock.now, result.device_seconds, result.batch_rows))

    line.put(handle)
    handle.submitted_at = arrival.at_s  # it came during a step
    handle.future.add_done_callback(leave)
