"""The picture sizes that are trained, with how many pictures of each are encoded."""

from __future__ import annotations

Size = tuple[int, int]
"""Width and height in pixels."""

PICTURES: dict[Size, int] = {
    (64, 64): 1200,
    (96, 96): 1000,
    (96, 128): 700,
    (128, 96): 700,
    (128, 128): 2600,
    (160, 160): 900,
    (128, 192): 800,
    (192, 128): 800,
}


def parse_size(text: str) -> Size:
    """Read a size such as 128x96."""
    width, _, height = text.partition("x")
    size = int(width), int(height)
    if min(size) < 32 or size[0] % 16 or size[1] % 16:
        raise ValueError(f"a size is WIDTHxHEIGHT in multiples of 16, not {text}")
    return size
