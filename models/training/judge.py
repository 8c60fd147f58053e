"""Says whether a picture shows what its caption states. It looks at pixels and knows no model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from .blobs import Blob, find_blobs
from .render import fit_to_square, shape_extent, shape_mask
from .scenes import ALONE_RADIUS, PAIR_RADIUS, SHAPES, Scene, Thing

TEMPLATE_SIDE = 32
SHAPE_LIKENESS = 0.65
"""The least overlap with its own template at which a shape counts as drawn."""
COLOUR_SHARE = 0.75
"""The least share of an object that has its colour; less is mottled."""
POSITION_STEP = 0.12
RELATION_STEP = 0.15


@dataclass(frozen=True)
class Verdict:
    """What is right, field by field; None where the caption states nothing."""

    background: bool
    count: bool
    colour: bool
    shape: bool
    size: bool | None
    position: bool | None
    relation: bool | None

    @property
    def everything(self) -> bool:
        """Whether all that is stated is right."""
        return all(getattr(self, field.name) is not False for field in fields(self))


def judge(image: Image.Image, scene: Scene) -> Verdict:
    """Compare a picture with the scene it is to show."""
    background, blobs = find_blobs(image)
    wanted = len(scene.things)
    if len(blobs) < wanted:
        stated = [True if part else None for part in (_sized(scene), scene.position, scene.relation)]
        wrong = [None if part is None else False for part in stated]
        return Verdict(background == scene.background, False, False, False, *wrong)
    matched = _match(image, scene, blobs[:wanted])
    pairs = list(zip(matched, scene.things, strict=True))
    sizes = [_size_is_right(image, scene, blob, thing) for blob, thing in pairs if thing.size != "medium"]
    return Verdict(
        background=background == scene.background,
        count=len(blobs) == wanted,
        colour=all(blob.shares[thing.colour] >= COLOUR_SHARE for blob, thing in pairs),
        shape=all(_shape_is_right(blob, thing.shape) for blob, thing in pairs),
        size=all(sizes) if sizes else None,
        position=_position_is_right(image, scene, matched[0]) if scene.position else None,
        relation=_relation_is_right(image, scene, matched) if scene.relation else None,
    )


def _sized(scene: Scene) -> bool:
    return any(thing.size != "medium" for thing in scene.things)


def _match(image: Image.Image, scene: Scene, blobs: list[Blob]) -> list[Blob]:
    """Put the objects found in the order of the things wanted, as they fit best."""

    def fit(order: Iterable[Blob]) -> float:
        score = 0.0
        order = list(order)
        for blob, thing in zip(order, scene.things, strict=True):
            score += 2 * blob.shares[thing.colour] + _likeness(blob)[thing.shape]
            score += 0.2 * _size_is_right(image, scene, blob, thing)
        if scene.relation:
            score += 0.1 * _relation_is_right(image, scene, order)
        return score

    return list(max(itertools.permutations(blobs), key=fit))


def _shape_is_right(blob: Blob, shape: str) -> bool:
    likeness = _likeness(blob)
    return likeness[shape] == max(likeness.values()) and likeness[shape] >= SHAPE_LIKENESS


def _likeness(blob: Blob) -> dict[str, float]:
    """How far an object overlaps with each shape's template, from 0 to 1."""
    seen = fit_to_square(blob.mask.astype(np.float32), TEMPLATE_SIDE)
    likeness = {}
    for shape in SHAPES:
        template = _template(shape)
        overlap = np.minimum(seen, template).sum() / np.maximum(seen, template).sum()
        likeness[shape] = float(overlap)
    return likeness


@cache
def _template(shape: str) -> npt.NDArray[np.float32]:
    return shape_mask(shape, TEMPLATE_SIDE)


def _size_is_right(image: Image.Image, scene: Scene, blob: Blob, thing: Thing) -> bool:
    radii = PAIR_RADIUS if len(scene.things) > 1 else ALONE_RADIUS
    radius = blob.longest / (2 * shape_extent(thing.shape) * min(image.size))
    nearest = min(radii, key=lambda size: abs(math.log(radii[size] / radius)))
    return nearest == thing.size


def _position_is_right(image: Image.Image, scene: Scene, blob: Blob) -> bool:
    named = scene.position or ""
    x, y = blob.centre
    across = ("right" in named) - ("left" in named)
    down = ("bottom" in named) - ("top" in named)
    return _step(x / image.width - 0.5) == across and _step(y / image.height - 0.5) == down


def _step(offset: float) -> int:
    return 0 if abs(offset) < POSITION_STEP else int(math.copysign(1, offset))


def _relation_is_right(image: Image.Image, scene: Scene, blobs: list[Blob]) -> bool:
    (first_x, first_y), (second_x, second_y) = blobs[0].centre, blobs[1].centre
    across, down = (second_x - first_x) / image.width, (second_y - first_y) / image.height
    if scene.relation in ("above", "below"):
        step = down if scene.relation == "above" else -down
        return step > RELATION_STEP and abs(down) > abs(across)
    step = {"left": across, "right": -across}.get(scene.relation or "", abs(across))
    return step > RELATION_STEP and abs(across) > abs(down)
