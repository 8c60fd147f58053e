"""Draws scenes with Pillow: the pictures the model learns from."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from .scenes import COLOURS, Scene, Thing

SUPERSAMPLING = 3
RING_HOLE = 0.5

Point = tuple[float, float]


def render_scene(scene: Scene, width: int, height: int) -> Image.Image:
    """Draw a scene, smoothed by drawing it larger and shrinking it."""
    big = (width * SUPERSAMPLING, height * SUPERSAMPLING)
    image = Image.new("RGB", big, COLOURS[scene.background])
    draw = ImageDraw.Draw(image)
    for thing in scene.things:
        _draw_thing(draw, thing, big, COLOURS[scene.background])
    return image.resize((width, height), Image.Resampling.BOX)


def shape_mask(shape: str, side: int) -> npt.NDArray[np.float32]:
    """A shape alone, filling a square of this side as far as its proportions allow."""
    scale = 4
    image = Image.new("L", (side * scale * 2, side * scale * 2), 0)
    draw = ImageDraw.Draw(image)
    _draw_shape(draw, shape, (side * scale, side * scale), side * scale * 0.8, 255, 0)
    box = image.getbbox() or (0, 0, 1, 1)
    return fit_to_square(np.asarray(image.crop(box), dtype=np.float32) / np.float32(255), side)


def shape_extent(shape: str) -> float:
    """Half of a shape's longer side, in units of its radius."""
    if shape in ("circle", "ring"):
        return 1.0
    across = [x for x, _ in _OUTLINES[shape]]
    down = [y for _, y in _OUTLINES[shape]]
    return max(max(across) - min(across), max(down) - min(down)) / 2


def fit_to_square(mask: npt.NDArray[np.float32], side: int) -> npt.NDArray[np.float32]:
    """Scale a mask to a square of this side, keeping its proportions and centring it."""
    height, width = mask.shape
    longest = max(height, width)
    square = np.zeros((longest, longest), dtype=np.float32)
    top, left = (longest - height) // 2, (longest - width) // 2
    square[top : top + height, left : left + width] = mask
    image = Image.fromarray((square * 255).astype(np.uint8))
    scaled = image.resize((side, side), Image.Resampling.BOX if longest > side else Image.Resampling.BILINEAR)
    return np.asarray(scaled, dtype=np.float32) / np.float32(255)


def _draw_thing(
    draw: ImageDraw.ImageDraw,
    thing: Thing,
    canvas: tuple[int, int],
    background: tuple[int, int, int],
) -> None:
    centre = (thing.x * canvas[0], thing.y * canvas[1])
    radius = thing.radius * min(canvas)
    _draw_shape(draw, thing.shape, centre, radius, COLOURS[thing.colour], background)


def _draw_shape(
    draw: ImageDraw.ImageDraw,
    shape: str,
    centre: Point,
    radius: float,
    fill: int | tuple[int, int, int],
    hole: int | tuple[int, int, int],
) -> None:
    if shape in ("circle", "ring"):
        draw.ellipse(_box(centre, radius), fill=fill)
        if shape == "ring":
            draw.ellipse(_box(centre, radius * RING_HOLE), fill=hole)
        return
    points = [(centre[0] + x * radius, centre[1] + y * radius) for x, y in _OUTLINES[shape]]
    draw.polygon(points, fill=fill)


def _box(centre: Point, radius: float) -> tuple[float, float, float, float]:
    return centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius


def _star() -> list[Point]:
    points = []
    for corner in range(10):
        radius = 1.1 if corner % 2 == 0 else 0.45
        angle = math.pi * corner / 5
        points.append((radius * math.sin(angle), 0.1 - radius * math.cos(angle)))
    return points


def _heart() -> list[Point]:
    points = []
    for step in range(72):
        angle = 2 * math.pi * step / 72
        x = 16 * math.sin(angle) ** 3
        y = 13 * math.cos(angle) - 5 * math.cos(2 * angle) - 2 * math.cos(3 * angle) - math.cos(4 * angle)
        points.append((x / 15.2, -(y + 2.5) / 15.2))
    return points


def _cross() -> list[Point]:
    arm, reach = 0.37, 1.02
    quarter = [(-arm, -reach), (arm, -reach), (arm, -arm)]
    points = []
    for turn in range(4):
        cosine, sine = (1, 0, -1, 0)[turn], (0, 1, 0, -1)[turn]
        points += [(x * cosine - y * sine, x * sine + y * cosine) for x, y in quarter]
    return points


_OUTLINES: dict[str, list[Point]] = {
    "square": [(-0.95, -0.95), (0.95, -0.95), (0.95, 0.95), (-0.95, 0.95)],
    "triangle": [(0.0, -0.95), (1.0, 0.9), (-1.0, 0.9)],
    "diamond": [(0.0, -1.08), (0.8, 0.0), (0.0, 1.08), (-0.8, 0.0)],
    "star": _star(),
    "heart": _heart(),
    "cross": _cross(),
}
