"""Scenes, captions and their vocabulary."""

from __future__ import annotations

import random

import pytest

from models.training.captions import all_words, is_held_out, training_caption, write_caption
from models.training.scenes import COLOURS, sample_scene
from models.training.sizes import PICTURES, Size, parse_size


def test_a_seed_always_draws_the_same_scene() -> None:
    """The latent cache keeps seeds in place of scenes."""
    assert sample_scene(random.Random(7), 128, 96) == sample_scene(random.Random(7), 128, 96)


@pytest.mark.parametrize("size", PICTURES)
def test_things_lie_inside_the_picture_and_apart(size: Size) -> None:
    """Nothing is cut off at an edge, and a pair's centres are further apart than their radii."""
    rng = random.Random(1)
    side = min(size)
    for _ in range(300):
        scene = sample_scene(rng, *size)
        for thing in scene.things:
            reach = thing.radius * side
            assert reach < thing.x * size[0] < size[0] - reach
            assert reach < thing.y * size[1] < size[1] - reach
            assert thing.colour != scene.background
        if len(scene.things) == 2:
            one, other = scene.things
            apart = max(abs(one.x - other.x) * size[0], abs(one.y - other.y) * size[1])
            assert apart > (one.radius + other.radius) * side


def test_a_caption_names_what_is_in_the_scene() -> None:
    """A scene with a relation has both of its things and the relation in its caption."""
    rng = random.Random(3)
    words = set(all_words())
    for _ in range(300):
        caption = write_caption(rng, sample_scene(rng, 128, 128), unknown=0.0)
        assert set(caption.replace(",", "").split()) <= words


def test_training_never_sees_a_caption_kept_for_evaluation() -> None:
    """The captions that are measured are new to the model."""
    rng = random.Random(5)
    captions = [training_caption(rng, sample_scene(rng, 128, 128)) for _ in range(500)]
    assert not any(is_held_out(caption) for caption in captions)


def test_every_colour_is_a_word() -> None:
    """The plain name of each colour can be said."""
    assert set(COLOURS) <= set(all_words())


@pytest.mark.parametrize("text", ["128", "100x128", "16x16", "x", "axb"])
def test_a_size_the_model_cannot_have_is_refused(text: str) -> None:
    """A size is two multiples of 16, and no smaller than 32."""
    with pytest.raises(ValueError, match=r"."):
        parse_size(text)


def test_a_size_is_width_by_height() -> None:
    """Width comes first."""
    assert parse_size("128x96") == (128, 96)
