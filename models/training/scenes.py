"""What a scene is, and how one is drawn by lot.

Lengths are in units of the picture's shorter side unless said otherwise, so that a scene looks
alike at every size.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (221, 36, 36),
    "orange": (238, 140, 22),
    "yellow": (253, 215, 40),
    "green": (34, 160, 75),
    "cyan": (38, 200, 217),
    "blue": (36, 85, 221),
    "purple": (138, 49, 190),
    "pink": (250, 128, 188),
    "black": (20, 20, 20),
    "gray": (136, 140, 147),
    "white": (251, 251, 251),
}
SHAPES = ("circle", "square", "triangle", "star", "heart", "diamond", "ring", "cross")
SIZES = ("small", "medium", "large")
RELATIONS = ("left", "right", "above", "below", "beside")
POSITIONS = (
    "top left",
    "top",
    "top right",
    "left",
    "center",
    "right",
    "bottom left",
    "bottom",
    "bottom right",
)

ALONE_RADIUS = {"small": 0.125, "medium": 0.19, "large": 0.275}
PAIR_RADIUS = {"small": 0.12, "medium": 0.165, "large": 0.21}
PAIR_OFFSET = 0.245
"""How far the two objects' centres lie from the middle, as a share of the axis they lie along."""
EDGE_MARGIN = 0.06
"""How far an object at a named position stays from the edge."""


@dataclass(frozen=True)
class Thing:
    """One object of a scene; its centre is a share of the picture's width and height."""

    shape: str
    colour: str
    size: str
    radius: float
    x: float
    y: float


@dataclass(frozen=True)
class Scene:
    """One or two things on a plain background, with either a relation or a position."""

    background: str
    things: tuple[Thing, ...]
    relation: str | None = None
    position: str | None = None
    says_background: bool = True


def sample_scene(rng: random.Random, width: int, height: int) -> Scene:
    """Draw a scene by lot for a picture of this size."""
    says_background = rng.random() < 0.8
    background = rng.choice(list(COLOURS)) if says_background else "white"
    if rng.random() < 0.3:
        return _alone(rng, background, says_background, width, height)
    return _pair(rng, background, says_background)


def _alone(rng: random.Random, background: str, says_background: bool, width: int, height: int) -> Scene:
    position = rng.choice(POSITIONS) if rng.random() < 0.55 else None
    size = rng.choice(("small", "medium", "medium") if position else SIZES)
    radius = ALONE_RADIUS[size] * rng.uniform(0.98, 1.02)
    x, y = _place(rng, position, radius, width, height)
    shape, colour = rng.choice(SHAPES), _other_colour(rng, background)
    thing = Thing(shape, colour, size, radius, x, y)
    return Scene(background, (thing,), None, position, says_background)


def _place(rng: random.Random, position: str | None, radius: float, width: int, height: int) -> tuple[float, float]:
    """The centre of a lone thing: in the middle unless its position says otherwise."""
    jitter_x, jitter_y = rng.uniform(-0.01, 0.01), rng.uniform(-0.01, 0.01)
    named = position or "center"
    side = min(width, height)
    reach_x = 0.5 - (radius * 1.05 + EDGE_MARGIN) * side / width
    reach_y = 0.5 - (radius * 1.05 + EDGE_MARGIN) * side / height
    across = ("right" in named) - ("left" in named)
    down = ("bottom" in named) - ("top" in named)
    return 0.5 + across * reach_x + jitter_x, 0.5 + down * reach_y + jitter_y


def _pair(rng: random.Random, background: str, says_background: bool) -> Scene:
    relation = rng.choice(RELATIONS)
    offset = PAIR_OFFSET + rng.uniform(-0.005, 0.005)
    sign = 1 if relation in ("right", "below") else -1
    things = []
    for direction in (sign, -sign):
        size = rng.choice(SIZES)
        radius = PAIR_RADIUS[size] * rng.uniform(0.98, 1.02)
        along = 0.5 + direction * offset
        across = 0.5 + rng.uniform(-0.01, 0.01)
        x, y = (across, along) if relation in ("above", "below") else (along, across)
        shape, colour = rng.choice(SHAPES), _other_colour(rng, background)
        things.append(Thing(shape, colour, size, radius, x, y))
    return Scene(background, tuple(things), relation, None, says_background)


def _other_colour(rng: random.Random, background: str) -> str:
    return rng.choice([colour for colour in COLOURS if colour != background])
