"""Three ways to serve the same trace: the plain pipeline, static batches of it, and the engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from actors.engine import Engine
from actors.engine.observer import Observer
from actors.engine.simulation import Arrival
from safelight.config import EngineSettings, ModelSettings

FOLDER = Path(__file__).resolve().parents[2] / "models" / "scenes-flux"
MODEL = ModelSettings(model=str(FOLDER), family="flux", dtype="float32", max_sequence_length=24)


@dataclass(frozen=True, slots=True)
class Served:
    """How long after its coming each request was done, in seconds, and when the last one was."""

    latencies_s: tuple[float, ...]
    span_s: float

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return len(self.latencies_s) / self.span_s


def load_pipeline() -> Any:
    """The shipped model, as a script would load it."""
    import diffusers

    pipeline = diffusers.DiffusionPipeline.from_pretrained(FOLDER, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def run_pipeline(pipeline: Any, arrivals: Sequence[Arrival]) -> list[Any]:
    """The pictures of requests that have the same steps and size."""
    first = arrivals[0].request
    return list(
        pipeline(
            [arrival.request.prompt for arrival in arrivals],
            width=first.width,
            height=first.height,
            num_inference_steps=first.steps,
            guidance_scale=first.guidance,
            max_sequence_length=MODEL.max_sequence_length,
            generator=[torch.Generator("cpu").manual_seed(arrival.request.seeds[0]) for arrival in arrivals],
        ).images
    )


Trace = Sequence[Arrival]


def one_after_another() -> Callable[[Trace], Served]:
    """Whoever comes first is rendered first, alone."""
    return static_batches(1)


def static_batches(most: int) -> Callable[[Trace], Served]:
    """Of those that wait, whoever has the steps of the first is rendered with it, at most ``most`` together."""
    pipeline = load_pipeline()
    return lambda trace: _in_batches(pipeline, trace, most)


def continuous(most: int, compiled: Literal["off", "regional"]) -> Callable[[Trace], Served]:
    """The engine."""
    return EngineServer(most, compiled=compiled).serve


def _in_batches(pipeline: Any, trace: Sequence[Arrival], most: int) -> Served:
    began = time.perf_counter()
    waiting, coming = list[Arrival](), list(trace)
    done: list[float] = []
    while waiting or coming:
        now = time.perf_counter() - began
        while coming and coming[0].at_s <= now:
            waiting.append(coming.pop(0))
        if not waiting:
            time.sleep(max(coming[0].at_s - now, 0))
            continue
        mates = [arrival for arrival in waiting if arrival.request.steps == waiting[0].request.steps][:most]
        run_pipeline(pipeline, mates)
        waiting = [arrival for arrival in waiting if arrival not in mates]
        done += [time.perf_counter() - began - arrival.at_s for arrival in mates]
    return Served(tuple(done), time.perf_counter() - began)


class EngineServer:
    """The engine, loaded and warm."""

    def __init__(
        self, most: int, observer: Observer | None = None, *, compiled: Literal["off", "regional"] = "off"
    ) -> None:
        settings = EngineSettings(max_batch=most, compile=compiled)
        self._engine = Engine({"scenes": MODEL}, "cpu", settings=settings, observer=observer)
        self._engine.start(warm=["scenes"])
        self._engine.wait_ready(300)

    def serve(self, trace: Sequence[Arrival]) -> Served:
        """Submit each request when it comes."""
        done = dict[int, float]()
        began = time.perf_counter()
        every = threading.Event()

        def note(index: int, _future: object) -> None:
            done[index] = time.perf_counter() - began - trace[index].at_s
            if len(done) == len(trace):
                every.set()

        handles = []
        for index, arrival in enumerate(trace):
            time.sleep(max(arrival.at_s - (time.perf_counter() - began), 0))
            handle = self._engine.submit(arrival.request)
            handle.future.add_done_callback(partial(note, index))
            handles.append(handle)
        every.wait()
        span = time.perf_counter() - began
        for handle in handles:
            handle.result(0)
        return Served(tuple(done[index] for index in range(len(trace))), span)

    def stop(self) -> None:
        """End the engine."""
        self._engine.stop(60)
