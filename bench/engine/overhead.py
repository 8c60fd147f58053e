"""What the engine's step costs beyond a bare loop of denoiser and scheduler: the limit of every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

import torch

from actors.engine.building import Builder
from actors.engine.devices import Device
from actors.engine.families.base import Inputs, LatentRow
from actors.engine.latent import LatentModel
from actors.engine.observer import StepTaken, Unobserved
from actors.engine.passes import Eager
from actors.engine.stepping import BatchKey
from bench.engine.processes import Apart
from bench.engine.servers import MODEL, EngineServer, load_pipeline
from bench.engine.trace import make_trace
from safelight.config import EngineSettings

_MOST = 16


@dataclass(frozen=True, slots=True)
class Question:
    """How long is a step of so many rows, over so many steps?"""

    rows: int
    steps: int
    width: int
    height: int


def bare() -> Callable[[Question], float]:
    """Seconds a step of the bare loop: one forward pass, one scheduler step for the whole batch, nothing else."""
    pipeline = load_pipeline()
    model = Builder(Device("cpu", "cpu"), EngineSettings(), Unobserved()).build("scenes", MODEL).stepping
    assert model is not None
    return lambda question: _bare_step_s(pipeline, model, question)


def engine() -> Callable[[Question], tuple[float, float]]:
    """Seconds a step of the engine with so many rows in the batch, from the end of one step to that of the next.

    And how many of them the denoiser's forward pass took: what is beside it is the engine's own.
    """
    ends = _Ends()
    forward = Eager.run

    def timed(self: Eager, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        began = time.perf_counter()
        output = forward(self, inputs, key)
        ends.forward(time.perf_counter() - began)
        return output

    Eager.run = timed  # type: ignore[method-assign]
    server = EngineServer(_MOST, observer=ends)
    return lambda question: _engine_step_s(server, ends, question)


def _bare_step_s(pipeline: Any, model: LatentModel, question: Question) -> float:
    trace = make_trace(question.rows, 1.0, question.width, question.height)
    rows = [cast("LatentRow", model.admit(arrival.request).rows[0]) for arrival in trace]
    (inputs,) = model.family.inputs(rows)
    arguments = {**inputs.batched, **inputs.shared}
    scheduler = pipeline.scheduler.from_config(pipeline.scheduler.config)
    scheduler.set_timesteps(question.steps, device="cpu")
    latents = arguments["hidden_states"]
    began = time.perf_counter()
    with torch.no_grad():
        for timestep in scheduler.timesteps:
            arguments["hidden_states"] = latents
            arguments["timestep"] = timestep.expand(question.rows) / 1000
            prediction = pipeline.transformer(**arguments, return_dict=False)[0]
            latents = scheduler.step(prediction, timestep, latents, return_dict=False)[0]
    return (time.perf_counter() - began) / question.steps


def _engine_step_s(server: EngineServer, ends: _Ends, question: Question) -> tuple[float, float]:
    ends.begin(question.rows)
    server.serve(make_trace(question.rows, 1e9, question.width, question.height, steps=(question.steps,)))
    return ends.step_s, ends.forward_s


class _Ends(Unobserved):
    """Notes when steps of full batches end."""

    def __init__(self) -> None:
        self.begin(1)

    def begin(self, rows: int) -> None:
        """From now on, batches of so many rows are full."""
        self._rows = rows
        self._ends: list[float] = []
        self._forwards: list[float] = []
        self._last_forward = 0.0

    def forward(self, seconds: float) -> None:
        """A forward pass took so long."""
        self._last_forward = seconds

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        if step.rows == self._rows:
            self._ends.append(time.perf_counter())
            self._forwards.append(self._last_forward)

    @property
    def step_s(self) -> float:
        """From the first end to the last, a step."""
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)

    @property
    def forward_s(self) -> float:
        """The forward passes of those steps, a step."""
        return sum(self._forwards[1:]) / (len(self._forwards) - 1)


def compare(rows: Sequence[int], steps: int, rounds: int, threads: int, width: int, height: int) -> dict[int, Any]:
    """By batch size: ms a step of both (medians over interleaved rounds), and the medians of the rounds' ratios.

    ``ratio`` is the engine's step over the bare loop's, ``over_forward`` over its own forward passes. The second is
    measured in the same steps, and is what can be trusted on a machine whose speed comes and goes.
    """
    bare_loop, whole_engine = Apart(bare, threads), Apart(engine, threads)
    found: dict[int, Any] = {}
    for batch in rows:
        question = Question(batch, steps, width, height)
        runs = [(bare_loop.ask(question), *whole_engine.ask(question)) for _ in range(rounds + 1)][1:]
        bare_s, ours_s, forward_s = (median(times) for times in zip(*runs, strict=True))
        found[batch] = {
            "bare_ms": 1e3 * bare_s,
            "engine_ms": 1e3 * ours_s,
            "forward_ms": 1e3 * forward_s,
            "ratio": median(ours / theirs for theirs, ours, _ in runs),
            "over_forward": median(ours / forward for _, ours, forward in runs),
        }
    bare_loop.stop()
    whole_engine.stop()
    return found
