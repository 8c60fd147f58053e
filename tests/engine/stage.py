"""A loop with a model of arithmetic and a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.engine.admission import Line
from actors.engine.developing import AtOnce
from actors.engine.devices import Device
from actors.engine.errors import EngineError, OutOfMemoryError
from actors.engine.loop import Loop
from actors.engine.marks import Immediate, Mark
from actors.engine.observer import StepTaken, Unobserved
from actors.engine.request import NOBODY, Handle, Watch
from actors.engine.simulated import Pace, SimulatedModel, SimulatedModels, SimulatedRow
from actors.engine.simulation import VirtualClock
from actors.engine.stepping import Finished, Row
from safelight.config import EngineSettings
from tests.engine.conftest import ask, scenes


class Late(Immediate):
    """Marks of a device that steps are launched on ahead of time, as on CUDA."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def set(self) -> Mark:
        """A mark that is passed when it is waited for."""
        return super().set()


class Scripted(SimulatedModel):
    """A simulated model on a device that holds ``holds`` rows, and that trips over the prompts ``bad``."""

    holds = 1_000
    bad: frozenset[str] = frozenset()

    def step(self, rows: Sequence[Row]) -> int:
        """As the simulated device, or an error before any row has changed."""
        if len(rows) > self.holds:
            raise OutOfMemoryError("made up")
        if any(isinstance(row, SimulatedRow) and row.request.prompt in self.bad for row in rows):
            raise RuntimeError("made up")
        return super().step(rows)

    def finish(self, row: Row) -> Finished:
        """A picture's worth of nothing, or an error."""
        if isinstance(row, SimulatedRow) and row.request.prompt == "undecodable":
            raise EngineError("made up")
        return super().finish(row)


class ScriptedModels(SimulatedModels):
    """Loads scripted models."""

    def load(self, name: str, in_use: set[str]) -> None:
        """In the time that loading takes."""
        super().load(name, in_use)
        self._loaded[name] = Scripted(name, self._pace, self._pace.batch, self._sleep, None)


class Steps(Unobserved):
    """Keeps what was stepped."""

    def __init__(self) -> None:
        self.taken: list[StepTaken] = []
        self.halvings = 0

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        self.taken.append(step)

    def halved(self, model: str) -> None:
        """A batch was halved."""
        self.halvings += 1


@dataclass
class Stage:
    """A loop, its line and its clock. A step takes a second, and a tenth a row."""

    options: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ("scenes", "other", "third")
    batch: int = 4
    depth: int = 0

    def __post_init__(self) -> None:
        """Set up everything."""
        self.clock = VirtualClock()
        self.line = Line(self.clock)
        self.steps = Steps()
        settings = EngineSettings(**self.options)
        pace = Pace(step_s=1.0, row_s=0.1, load_s=5.0, batch=self.batch)
        served = {name: scenes() for name in self.models}
        self.shelf = ScriptedModels(served, Device("simulated", "simulated"), pace, settings, sleep=self.clock.sleep)
        self.loop = Loop(
            self.line,
            self.shelf,
            AtOnce(),
            Late(self.depth),
            settings,
            self.steps,
            device="simulated",
            identity=lambda handle: handle.request.prompt,
            clock=self.clock,
        )

    def submit(self, watch: Watch = NOBODY, **changes: Any) -> Handle:
        """Let a request wait."""
        handle = Handle(ask(**changes), watch)
        self.line.put(handle)
        return handle

    def script(self, **changes: Any) -> None:
        """Load the first model, and change what it trips over."""
        self.submit(steps=1)
        self.run()
        self.steps.taken.clear()
        model = self.shelf.peek(ask())
        assert isinstance(model, Scripted)
        for name, value in changes.items():
            setattr(model, name, value)

    def run(self, until: Callable[[], bool] = lambda: False, most: int = 10_000) -> None:
        """Turn until nothing steps, or something is so."""
        for _ in range(most):
            if until() or not self.loop.turn():
                return
        raise AssertionError("the loop does not come to an end")

    @property
    def batches(self) -> list[int]:
        """How many rows each step had."""
        return [step.rows for step in self.steps.taken]
