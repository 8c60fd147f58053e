"""The parts of the benchmark: which cases each has, and how one is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from actors.engine.compiled.knee import Knee, Timing, find_knee
from actors.engine.devices import Device, is_out_of_memory
from bench.gpu import memory, trace
from bench.gpu.architectures import TINY, TRUE, Architecture
from bench.gpu.floors import matmul_rate, step_flops
from bench.gpu.gaps import step_gaps
from bench.gpu.plots import plot_knees
from bench.gpu.results import Case, Results, free
from bench.gpu.steps import Bench, How
from safelight.config import EngineSettings

PARTS = ("steps", "gaps", "knee", "memory", "trace")

_LOAD = 1.5  # requests arrive so much faster than one after the other could be rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure, and on what. ``tiny``: models that a CPU runs in milliseconds."""

    device: Device
    dtype: torch.dtype
    tiny: bool
    models: tuple[str, ...]
    sizes: tuple[int, ...]
    batches: tuple[int, ...]
    rounds: int
    calls: int
    requests: int
    plot: Path | None = None

    @property
    def place(self) -> str:
        """The device and the number format."""
        return f"{self.device.label} {self.dtype}{' tiny' if self.tiny else ''}"

    def architecture(self, name: str) -> Architecture:
        """The architecture of that name."""
        return (TINY if self.tiny else TRUE)[name]

    @property
    def compiles(self) -> bool:
        """Whether compiling is worth its while: on a CPU only to see that it works."""
        return self.device.kind == "cuda"

    def ways(self, model: str, batch: int) -> tuple[How, ...]:
        """How steps of a model are run here."""
        if self.device.kind == "cuda":
            return ("diffusers", "eager", "compiled", "graphed")
        return ("diffusers", "eager", "compiled") if model == "small" and batch == 1 else ("diffusers", "eager")

    @property
    def best_way(self) -> How:
        """The one that the engine takes here by default."""
        return "graphed" if self.device.kind == "cuda" else "eager"


def cases_of(part: str, plan: Plan) -> Iterator[Case]:
    """The cases of a part, those of a model one after the other."""
    if part == "steps":
        yield {"part": part, "rate": str(plan.dtype)}
    if part == "trace":
        yield {"part": part, "requests": plan.requests}
        return
    for model in plan.models:
        for side in plan.sizes:
            if part == "steps":
                yield {"part": part, "model": model, "side": side, "floor": "flops"}
                for batch in plan.batches:
                    for how in plan.ways(model, batch):
                        yield {"part": part, "model": model, "side": side, "batch": batch, "how": how}
            elif part == "gaps":
                for how in ("eager", plan.best_way) if plan.best_way != "eager" else ("eager",):
                    yield {"part": part, "model": model, "side": side, "how": how}
            elif part == "knee":
                yield {"part": part, "model": model, "side": side}
            elif plan.architecture(model).encoders:
                for name in memory.PLANS:
                    yield {"part": part, "model": model, "side": side, "plan": name}


def run(part: str, plan: Plan, results: Results) -> Iterator[str]:
    """Measure a part's cases one by one; a label of each once it is done."""
    benches = Benches(plan)
    for case in cases_of(part, plan):
        results.run(case, partial(_MEASURES[part], case, plan, benches))
        yield " ".join(str(value) for name, value in case.items() if name != "part")
    benches.close()
    if part == "knee" and plan.plot is not None:
        plot_knees(knees(plan, results), plan.plot)


def knees(plan: Plan, results: Results) -> dict[str, Knee]:
    """The knees that were found, by model and size."""
    found = {}
    for case in cases_of("knee", plan):
        values = results.find(case)
        if values is not None:
            timings = tuple(Timing(**timing) for timing in values["timings"])
            found[f"{case['model']} {case['side']}²"] = Knee(values["rows"], timings, values["full"])
    return found


@dataclass(slots=True)
class Benches:
    """One model on the device at a time, built when it is first asked for."""

    plan: Plan
    _name: str = ""
    _bench: Bench | None = field(default=None)

    def get(self, name: str) -> Bench:
        """The bench of that model. Raises what building it raises."""
        if self._bench is None or self._name != name:
            self.close()
            plan = self.plan
            self._bench = Bench(plan.architecture(name), plan.device, plan.dtype, compiled=plan.compiles)
            self._name = name
        return self._bench

    def close(self) -> None:
        """Let go of the model, its graphs and its compiled code."""
        self._bench = None
        torch._dynamo.reset()
        free()


def _step(case: Case, plan: Plan, benches: Benches) -> Mapping[str, Any]:
    if "rate" in case:
        return {"flops_s": matmul_rate(plan.device.place, plan.dtype)}
    model, side = str(case["model"]), int(case["side"])
    if "floor" in case:
        return {"flops": step_flops(plan.architecture(model), side)}
    how: Any = case["how"]
    bench = benches.get(model)
    return {"ms": bench.time(how, side, int(case["batch"]), rounds=plan.rounds, calls=plan.calls)}


def _gaps(case: Case, plan: Plan, benches: Benches) -> Mapping[str, Any]:
    how: Any = case["how"]
    with benches.get(str(case["model"])).step(how, int(case["side"]), 1) as step:
        return {"idle_share": step_gaps(step, plan.device.place)}


def _knee(case: Case, plan: Plan, benches: Benches) -> Mapping[str, Any]:
    bench, side = benches.get(str(case["model"])), int(case["side"])

    def seconds(rows: int) -> float | None:
        try:
            return bench.time(plan.best_way, side, rows, rounds=plan.rounds, calls=plan.calls) / 1000
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        free()
        return None

    knee = find_knee(seconds, max(plan.batches))
    if knee is None:
        return {"error": "not even one row fits"}
    return asdict(knee)


def _memory(case: Case, plan: Plan, benches: Benches) -> Mapping[str, Any]:
    benches.close()
    architecture = plan.architecture(str(case["model"]))
    peak = memory.peak_bytes(architecture, str(case["plan"]), int(case["side"]), plan.device, plan.dtype)
    free()
    return {"bytes": peak}


def _trace(_case: Case, plan: Plan, benches: Benches) -> Mapping[str, Any]:
    benches.close()
    sides, steps = ((64, 128), (2, 4)) if plan.tiny else (plan.sizes, (10, 20, 28))
    place, together, alone = plan.device.place, EngineSettings(), EngineSettings(max_batch=1, open_groups=1)
    with trace.random_model(plan.architecture("small"), plan.dtype) as model:
        lone_s = trace.lone_seconds(model, together, place, sides[0], steps[-1])
        requests = trace.arrivals(plan.requests, lone_s / _LOAD, sides, steps)
        waits = {
            name: asdict(trace.replay(model, settings, place, requests))
            for name, settings in (("one at a time", alone), ("together", together))
        }
    return {"lone_s": lone_s, "waits": waits}


_MEASURES: dict[str, Callable[[Case, Plan, Benches], Mapping[str, Any]]] = {
    "steps": _step,
    "gaps": _gaps,
    "knee": _knee,
    "memory": _memory,
    "trace": _trace,
}
