"""Waiting times by load and policy: hours of arrivals through the engine's loop in virtual time.

The device's times are those of a 6-billion model at 512x512 on a large GPU, in round numbers: a step of B pictures
takes 20 + 8 B ms. Four fifths of the requests are of one size, the rest of two others; steps are 4, 28 or 50.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from actors.engine import RenderRequest
from actors.engine.groups import Charge, by_row
from actors.engine.observer import StepTaken, Unobserved
from actors.engine.simulated import Pace
from actors.engine.simulation import Arrival, simulate
from safelight.config import EngineSettings, ModelSettings

PACE = Pace(step_s=0.020, row_s=0.008, batch=8)
SIZES, SIZE_WEIGHTS = ((512, 512), (768, 512), (512, 768)), (0.8, 0.1, 0.1)
STEPS, STEP_WEIGHTS = (4, 28, 50), (0.3, 0.5, 0.2)


@dataclass(frozen=True, slots=True)
class Policy:
    """How the loop chooses. ``batch`` is how many rows step together at most."""

    open_groups: int
    batch: int = 8
    charge: Charge = by_row


POLICIES = {
    "one at a time": Policy(open_groups=1, batch=1),
    "one group": Policy(open_groups=1),
    "two groups": Policy(open_groups=2),
    "four groups": Policy(open_groups=4),
    "two groups, equal time": Policy(open_groups=2, charge=lambda seconds, _rows: seconds),
}
REQUESTS = 1_000


class _Rows(Unobserved):
    """Counts rows and steps."""

    def __init__(self) -> None:
        self.rows = self.steps = 0

    def stepped(self, step: StepTaken) -> None:
        """A step is done."""
        self.rows += step.rows
        self.steps += 1


def compare(progress: Progress, loads: tuple[float, ...] = (0.2, 0.3, 0.5, 0.7, 0.9)) -> list[dict[str, Any]]:
    """Latencies by load, as a share of what full batches could bear, and policy."""
    found = []
    task = progress.add_task("policy", total=len(loads) * len(POLICIES))
    for load in loads:
        arrivals = _arrivals(load)
        for name, policy in POLICIES.items():
            found.append({"load": load, "policy": name, **_measure(arrivals, policy)})
            progress.advance(task)
    return found


def _measure(arrivals: list[Arrival], policy: Policy) -> dict[str, float]:
    rows, models = _Rows(), {"model": ModelSettings(model="a/b", max_batch=policy.batch)}
    settings = EngineSettings(open_groups=policy.open_groups)
    departures = simulate(arrivals, models, PACE, settings, rows, policy.charge)
    latencies = sorted(departure.seconds for departure in departures)
    return {
        "p50_s": latencies[len(latencies) // 2],
        "p95_s": latencies[int(0.95 * (len(latencies) - 1))],
        "rows": rows.rows / rows.steps,
    }


def _arrivals(load: float) -> list[Arrival]:
    random_numbers = random.Random(1)
    mean_steps = sum(steps * weight for steps, weight in zip(STEPS, STEP_WEIGHTS, strict=True))
    full = PACE.batch / (PACE.step(PACE.batch) * mean_steps)  # requests a second at full batches
    now, arrivals = 0.0, []
    for index in range(REQUESTS):
        now += random_numbers.expovariate(load * full)
        ((width, height),) = random_numbers.choices(SIZES, SIZE_WEIGHTS)
        (steps,) = random_numbers.choices(STEPS, STEP_WEIGHTS)
        request = RenderRequest(model="model", prompt="p", width=width, height=height, steps=steps, seeds=(index,))
        arrivals.append(Arrival(now, request))
    return arrivals


def plot(found: list[dict[str, Any]], file: Path) -> None:
    """p50 and p95 over the load, a line a policy."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, name in zip(axes, ("p50_s", "p95_s"), strict=True):
        for policy in POLICIES:
            points = [(row["load"], row[name]) for row in found if row["policy"] == policy]
            axis.plot(*zip(*points, strict=True), marker="o", label=policy)
        axis.set_yscale("log")
        axis.set_xlabel("load, as a share of full batches")
        axis.set_title(name.replace("_s", ", seconds from submit to picture"))
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(file)
