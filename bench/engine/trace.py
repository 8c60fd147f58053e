"""Requests that come in over time: of mixed steps, each with a prompt and a seed of its own."""

from __future__ import annotations

import itertools
import random

from actors.engine import RenderRequest
from actors.engine.simulation import Arrival

STEPS = (4, 28, 28, 50)  # a draft, two usual ones, a final
COLOURS = ("red", "blue", "green", "yellow", "purple", "orange")
SHAPES = ("circle", "square", "triangle", "star")


def make_trace(
    count: int, rate: float, width: int, height: int, *, seed: int = 1, steps: tuple[int, ...] = STEPS
) -> list[Arrival]:
    """Poisson arrivals, ``rate`` a second on average; the first at 0."""
    random_numbers = random.Random(seed)
    things = [f"{colour} {shape}" for colour, shape in itertools.product(COLOURS, SHAPES)]
    arrivals, now = [], 0.0
    for index in range(count):
        one, other = random_numbers.sample(things, 2)
        request = RenderRequest(
            model="scenes",
            prompt=f"a {one} left of a {other}",
            width=width,
            height=height,
            steps=steps[index % len(steps)],
            guidance=0.0,
            seeds=(index,),
        )
        arrivals.append(Arrival(now, request))
        now += random_numbers.expovariate(rate)
    return arrivals
