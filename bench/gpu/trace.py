"""Requests that arrive by chance, of several sizes and steps, through the engine itself: how long each takes."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from statistics import quantiles
from typing import Any

import torch

from actors.engine import Engine, RenderRequest
from bench.gpu.architectures import Architecture
from safelight.config import EngineSettings, ModelSettings

_SCENES = Path(__file__).parents[2] / "models" / "scenes-flux"
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, so many seconds after the first."""

    after_s: float
    request: RenderRequest


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from arrival to picture, by percentile, and pictures a second over all."""

    p50_s: float
    p95_s: float
    pictures_s: float


def arrivals(count: int, mean_s: float, sides: Sequence[int], steps: Sequence[int], seed: int = 0) -> list[Arrival]:
    """So many requests, ``mean_s`` apart on average (a Poisson process), each of a size and number of steps by chance.

    The same seed gives the same trace.
    """
    choice, now, found = random.Random(seed), 0.0, []
    for index in range(count):
        side = choice.choice(sides)
        request = RenderRequest(
            model="trace",
            prompt=f"a red circle and {index} blue squares",
            width=side,
            height=side,
            steps=choice.choice(steps),
            seeds=(index,),
            guidance=3.5,
        )
        found.append(Arrival(now, request))
        now += choice.expovariate(1 / mean_s)
    return found


@contextmanager
def random_model(architecture: Architecture, dtype: torch.dtype) -> Iterator[ModelSettings]:
    """The shipped model in a folder of its own, but with a transformer of random weights of that architecture."""
    import diffusers

    pipeline = diffusers.FluxPipeline.from_pretrained(_SCENES, dtype=dtype)
    own = pipeline.transformer.config
    kept = ("in_channels", "joint_attention_dim", "pooled_projection_dim")
    arguments: dict[str, Any] = {**architecture.denoiser, **{name: own[name] for name in kept}}
    transformer: Any = diffusers.FluxTransformer2DModel(**arguments)
    pipeline.transformer = transformer.to(dtype)
    with tempfile.TemporaryDirectory(prefix="safelight-bench-") as folder:
        pipeline.save_pretrained(folder)
        yield ModelSettings(model=folder, family="flux", max_sequence_length=24)


def lone_seconds(model: ModelSettings, settings: EngineSettings, device: str, side: int, steps: int) -> float:
    """How long one render takes that shares the device with nobody, once all is loaded."""
    with _running(model, settings, device) as engine:
        request = arrivals(1, 1.0, (side,), (steps,))[0].request
        engine.submit(request).result(_TIMEOUT_S)
        begin = time.perf_counter()
        engine.submit(request).result(_TIMEOUT_S)
        return time.perf_counter() - begin


def replay(model: ModelSettings, settings: EngineSettings, device: str, trace: Sequence[Arrival]) -> Waits:
    """Submit each request when its time comes; one of each size goes before, so that all is loaded and ready."""
    with _running(model, settings, device) as engine:
        for arrival in {arrival.request.width: arrival for arrival in trace}.values():
            engine.submit(arrival.request).result(_TIMEOUT_S)
        return _waits(engine, trace)


@contextmanager
def _running(model: ModelSettings, settings: EngineSettings, device: str) -> Iterator[Engine]:
    engine = Engine({"trace": model}, device, settings=settings)
    engine.start(warm=["trace"])
    try:
        yield engine
    finally:
        engine.stop(60.0)


def _waits(engine: Engine, trace: Sequence[Arrival]) -> Waits:
    begin, ended = time.perf_counter(), SimpleQueue[tuple[int, float]]()
    handles = []
    for index, arrival in enumerate(trace):
        time.sleep(max(0.0, begin + arrival.after_s - time.perf_counter()))
        handle = engine.submit(arrival.request)
        handle.future.add_done_callback(partial(_note, ended, index))
        handles.append(handle)
    for handle in handles:
        handle.result(_TIMEOUT_S)
    ends = dict(ended.get() for _ in trace)  # a future wakes who waits for it before it calls back
    waits = [ends[index] - begin - arrival.after_s for index, arrival in enumerate(trace)]
    cuts = quantiles(waits, n=20)
    return Waits(cuts[9], cuts[18], len(trace) / (max(ends.values()) - begin))


def _note(ended: SimpleQueue[tuple[int, float]], index: int, _future: object) -> None:
    ended.put((index, time.perf_counter()))
