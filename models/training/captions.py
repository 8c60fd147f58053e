"""The words for a scene: many ways to say the same, so that prompts need not be exact."""

from __future__ import annotations

import random
import re
import zlib

from .scenes import Scene, Thing

COLOUR_WORDS: dict[str, tuple[str, ...]] = {
    "red": ("red", "red", "red", "crimson", "scarlet", "ruby"),
    "orange": ("orange",),
    "yellow": ("yellow", "yellow", "yellow", "golden", "gold"),
    "green": ("green", "green", "green", "lime", "emerald"),
    "cyan": ("cyan", "cyan", "teal", "turquoise", "aqua"),
    "blue": ("blue", "blue", "blue", "navy"),
    "purple": ("purple", "purple", "violet"),
    "pink": ("pink", "pink", "pink", "rose"),
    "black": ("black",),
    "gray": ("gray", "grey", "silver"),
    "white": ("white",),
}
SHAPE_WORDS: dict[str, tuple[str, ...]] = {
    "circle": ("circle", "circle", "circle", "ball", "disc", "disk", "dot", "sphere"),
    "square": ("square", "square", "square", "box", "block", "cube"),
    "triangle": ("triangle", "triangle", "triangle", "pyramid"),
    "star": ("star",),
    "heart": ("heart",),
    "diamond": ("diamond", "diamond", "rhombus"),
    "ring": ("ring", "ring", "ring", "donut", "hoop"),
    "cross": ("cross", "cross", "plus"),
}
SIZE_WORDS: dict[str, tuple[str, ...]] = {
    "small": ("small", "small", "small", "tiny", "little"),
    "large": ("large", "large", "big", "big", "huge"),
}
RELATION_WORDS: dict[str, tuple[str, ...]] = {
    "left": ("left of", "left of", "to the left of", "on the left of", "on the left side of"),
    "right": ("right of", "right of", "to the right of", "on the right of", "on the right side of"),
    "above": ("above", "above", "over", "on top of"),
    "below": ("below", "below", "under", "beneath", "underneath"),
    "beside": ("beside", "next to", "and", "and", "near"),
}
POSITION_WORDS: dict[str, tuple[str, ...]] = {
    "top left": ("in the top left corner", "in the upper left", "at the top left"),
    "top": ("at the top", "on the top", "in the top middle"),
    "top right": ("in the top right corner", "in the upper right", "at the top right"),
    "left": ("on the left", "on the left side", "at the left"),
    "center": ("in the center", "in the middle", "in the centre"),
    "right": ("on the right", "on the right side", "at the right"),
    "bottom left": ("in the bottom left corner", "in the lower left", "at the bottom left"),
    "bottom": ("at the bottom", "on the bottom", "in the bottom middle"),
    "bottom right": ("in the bottom right corner", "in the lower right", "at the bottom right"),
}
BACKGROUND_WORDS = (
    "on a {} background",
    "on a {} background",
    "on {}",
    "against a {} background",
    "with a {} background",
    "in front of a {} background",
    "on a {} canvas",
)
PREFIXES = (
    "a picture of",
    "an image of",
    "a drawing of",
    "draw me",
    "please draw",
    "show me",
    "a painting of",
    "a photo of",
    "generate",
    "render",
)
SUFFIXES = ("flat style", "simple", "high quality", "minimalist", "cartoon style", "detailed", "icon")
MOODS = ("bright", "cute", "pretty", "nice", "beautiful", "solid", "simple", "colorful")
ARTICLES = ("a", "a", "a", "a", "the", "the", "")
UNKNOWN_WORD = "zyx"
HELD_OUT_SHARE = 16


def write_caption(rng: random.Random, scene: Scene, *, unknown: float = 0.06) -> str:
    """Put a scene into words, with an unknown word in a few of the captions."""
    article = rng.choice(ARTICLES)
    parts = [_object_words(rng, scene.things[0], article)]
    if scene.position:
        parts.append(rng.choice(POSITION_WORDS[scene.position]))
    if scene.relation:
        parts.append(rng.choice(RELATION_WORDS[scene.relation]))
        parts.append(_object_words(rng, scene.things[1], article))
    if scene.says_background:
        background = rng.choice(BACKGROUND_WORDS).format(rng.choice(COLOUR_WORDS[scene.background]))
        parts.insert(0 if rng.random() < 0.06 else len(parts), _with_an(background))
    text = " ".join(parts)
    if rng.random() < 0.2:
        text = f"{rng.choice(PREFIXES)} {text}"
    if rng.random() < 0.1:
        text = f"{text}, {rng.choice(SUFFIXES)}"
    if rng.random() < unknown:
        words = text.split()
        words.insert(rng.randrange(len(words) + 1), UNKNOWN_WORD)
        text = " ".join(words)
    return text


def is_held_out(caption: str) -> bool:
    """Whether a caption is kept out of training, to be evaluated on."""
    return zlib.crc32(caption.encode()) % HELD_OUT_SHARE == 0


def training_caption(rng: random.Random, scene: Scene) -> str:
    """Write a caption that is not one of those kept for evaluation."""
    while is_held_out(caption := write_caption(rng, scene)):
        pass
    return caption


def all_words() -> list[str]:
    """Every word a caption may hold, sorted."""
    phrases: list[str] = ["a an the", *PREFIXES, *SUFFIXES, *MOODS, *BACKGROUND_WORDS]
    for table in (COLOUR_WORDS, SHAPE_WORDS, SIZE_WORDS, RELATION_WORDS, POSITION_WORDS):
        phrases += [words for choices in table.values() for words in choices]
    return sorted({word for phrase in phrases for word in phrase.replace("{}", " ").split()})


def _object_words(rng: random.Random, thing: Thing, article: str) -> str:
    words = []
    if thing.size in SIZE_WORDS:
        words.append(rng.choice(SIZE_WORDS[thing.size]))
    if rng.random() < 0.04:
        words.append(rng.choice(MOODS))
    words.append(rng.choice(COLOUR_WORDS[thing.colour]))
    words.append(rng.choice(SHAPE_WORDS[thing.shape]))
    return _with_an(" ".join([article, *words]).strip())


def _with_an(text: str) -> str:
    """Write "an" where "a" stands before a vowel."""
    return re.sub(r"\ba (?=[aeiou])", "an ", text)
