"""What the engine's step costs beyond a bare loop of denoiser and scheduler: the limit of every engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import torch

from actors.engine.building import Builder
from actors.engine.devices import Device
from actors.engine.families.base import LatentRow
from actors.engine.latent import LatentModel
from actors.engine.observer import StepTaken, Unobserved
from bench.engine.servers import MODEL, EngineServer
from bench.engine.trace import make_trace
from safelight.config import EngineSettings


def bare_step_s(pipeline: Any, rows: int, steps: int, width: int, height: int) -> float:
    """Seconds a step of the bare loop: one forward pass, one scheduler step for the whole batch, nothing else."""
    model = _model(rows)
    trace = make_trace(rows, 1.0, width, height)
    admitted = [cast("LatentRow", model.admit(arrival.request).rows[0]) for arrival in trace]
    (inputs,) = model.family.inputs(admitted)
    arguments = {**inputs.batched, **inputs.shared}
    scheduler = pipeline.scheduler.from_config(pipeline.scheduler.config)
    scheduler.set_timesteps(steps, device="cpu")
    latents = arguments["hidden_states"]
    began = time.perf_counter()
    with torch.no_grad():
        for timestep in scheduler.timesteps:
            arguments["hidden_states"] = latents
            arguments["timestep"] = timestep.expand(rows) / 1000
            prediction = pipeline.transformer(**arguments, return_dict=False)[0]
            latents = scheduler.step(prediction, timestep, latents, return_dict=False)[0]
    return (time.perf_counter() - began) / steps


def engine_step_s(rows: int, steps: int, width: int, height: int) -> float:
    """Seconds a step of the engine with so many rows in the batch, from the end of one step to that of the next."""
    ends = _Ends(rows)
    server = EngineServer(rows, observer=ends)
    trace = make_trace(rows, 1e9, width, height, steps=(steps,))
    server.serve(trace)
    server.stop()
    return ends.step_s


class _Ends(Unobserved):
    """Notes when steps of full batches end."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._ends: list[float] = []

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        if step.rows == self._rows:
            self._ends.append(time.perf_counter())

    @property
    def step_s(self) -> float:
        """From the first end to the last, a step."""
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)


def _model(rows: int) -> LatentModel:
    settings = EngineSettings(max_batch=rows)
    built = Builder(Device("cpu", "cpu"), settings, Unobserved()).build("scenes", MODEL)
    assert built.stepping is not None
    return built.stepping


def compare(pipeline: Any, rows: Sequence[int], steps: int, rounds: int, width: int, height: int) -> dict[int, Any]:
    """By batch size: ms a step of both (medians over interleaved rounds), and the median of the rounds' ratios."""
    found: dict[int, Any] = {}
    for batch in rows:
        pairs = [
            (bare_step_s(pipeline, batch, steps, width, height), engine_step_s(batch, steps, width, height))
            for _ in range(rounds)
        ]
        bare, ours = (sorted(times)[len(times) // 2] for times in zip(*pairs, strict=True))
        ratios = sorted(ours / bare for bare, ours in pairs)
        found[batch] = {"bare_ms": 1e3 * bare, "engine_ms": 1e3 * ours, "ratio": ratios[len(ratios) // 2]}
    return found
