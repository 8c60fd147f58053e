"""The judge: right about true pictures, and not pleased by wrong ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from PIL import Image, ImageDraw, ImageFilter

from models.training.judge import judge
from models.training.render import render_scene
from models.training.scenes import COLOURS, SHAPES, Scene, Thing, sample_scene
from models.training.sizes import PICTURES, Size

RED_CIRCLE = Thing("circle", "red", "small", 0.12, 0.255, 0.5)
BLUE_SQUARE = Thing("square", "blue", "large", 0.21, 0.745, 0.5)
PAIR = Scene("white", (RED_CIRCLE, BLUE_SQUARE), relation="left")


@pytest.mark.parametrize("size", PICTURES)
def test_true_pictures_are_judged_right(size: Size) -> None:
    """What the renderer draws for a scene passes for that scene, at every size."""
    rng = random.Random(11)
    scenes = [sample_scene(rng, *size) for _ in range(40)]
    wrong = [scene for scene in scenes if not judge(render_scene(scene, *size), scene).everything]
    assert wrong == []


def test_slightly_blurred_pictures_are_judged_right() -> None:
    """A decoder's soft edges are no mistake."""
    rng = random.Random(12)
    for _ in range(40):
        scene = sample_scene(rng, 128, 128)
        image = render_scene(scene, 128, 128).filter(ImageFilter.GaussianBlur(0.8))
        assert judge(image, scene).everything


@pytest.mark.parametrize("shape", SHAPES)
def test_another_shape_is_judged_wrong(shape: str) -> None:
    """Each shape is told from every other."""
    drawn = Scene("white", (Thing(shape, "red", "medium", 0.19, 0.5, 0.5),))
    image = render_scene(drawn, 128, 128)
    for other in SHAPES:
        wanted = replace(drawn, things=(replace(drawn.things[0], shape=other),))
        assert judge(image, wanted).shape is (other == shape)


@pytest.mark.parametrize("colour", [name for name in COLOURS if name != "white"])
def test_another_colour_is_judged_wrong(colour: str) -> None:
    """Each colour is told from every other."""
    drawn = Scene("white", (Thing("circle", colour, "medium", 0.19, 0.5, 0.5),))
    image = render_scene(drawn, 128, 128)
    for other in COLOURS:
        wanted = replace(drawn, things=(replace(drawn.things[0], colour=other),))
        assert judge(image, wanted).colour is (other == colour)


def test_a_swapped_pair_has_the_wrong_relation_only() -> None:
    """The objects are matched by what they look like, not by where they are."""
    image = render_scene(PAIR, 128, 128)
    verdict = judge(image, replace(PAIR, relation="right"))
    assert (verdict.relation, verdict.colour, verdict.shape, verdict.size) == (False, True, True, True)


def test_swapped_colours_are_judged_wrong() -> None:
    """Each object has to have its own colour."""
    things = (replace(RED_CIRCLE, colour="blue"), replace(BLUE_SQUARE, colour="red"))
    assert not judge(render_scene(PAIR, 128, 128), replace(PAIR, things=things)).everything


def test_the_wrong_size_is_judged_wrong() -> None:
    """Small is not large."""
    things = (replace(RED_CIRCLE, size="large"), BLUE_SQUARE)
    assert judge(render_scene(PAIR, 128, 128), replace(PAIR, things=things)).size is False


def test_another_background_is_judged_wrong() -> None:
    """The background is judged by the picture's border."""
    assert not judge(render_scene(PAIR, 128, 128), replace(PAIR, background="yellow")).background


def test_a_missing_and_an_extra_object_are_counted() -> None:
    """The number of objects has to be right."""
    alone = Scene("white", (RED_CIRCLE,))
    assert not judge(render_scene(alone, 128, 128), PAIR).count
    assert not judge(render_scene(PAIR, 128, 128), alone).count


def test_a_mottled_fill_is_judged_wrong() -> None:
    """An object that is partly of another colour does not have its colour."""
    image = render_scene(Scene("white", (replace(BLUE_SQUARE, x=0.5),)), 128, 128)
    ImageDraw.Draw(image).rectangle((40, 40, 88, 60), fill=COLOURS["green"])
    assert not judge(image, Scene("white", (replace(BLUE_SQUARE, x=0.5),))).colour


def test_an_empty_picture_is_wrong_and_no_error() -> None:
    """A picture with nothing in it has no object, so nothing about objects is right."""
    verdict = judge(Image.new("RGB", (128, 128), COLOURS["white"]), PAIR)
    assert verdict.background
    assert not verdict.everything
    assert verdict.position is None
