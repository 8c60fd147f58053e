"""The picture sizes that are trained."""

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
"""How many pictures of each size are encoded."""

SHARES: dict[Size, float] = {
    (64, 64): 0.09,
    (96, 96): 0.12,
    (96, 128): 0.10,
    (128, 96): 0.10,
    (128, 128): 0.42,
    (160, 160): 0.07,
    (128, 192): 0.05,
    (192, 128): 0.05,
}
"""How often a batch is of each size."""
OTHER_SHARE = 0.1


def parse_size(text: str) -> Size:
    """Read a size such as 128x96."""
    width, _, height = text.partition("x")
    size = int(width), int(height)
    if min(size) < 32 or size[0] % 16 or size[1] % 16:
        raise ValueError(f"a size is WIDTHxHEIGHT in multiples of 16, not {text}")
    return size
