"""Finds the objects in a picture by its pixels alone: what differs from the background, in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from .scenes import COLOURS

Pixels = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

DIFFERS = 38.0
"""How far a colour is from the background to count as foreground: half the palette's smallest step."""
SMALLEST_SHARE = 0.005
"""Pieces smaller than this share of the picture are specks, not objects."""

_NAMES = list(COLOURS)
_PALETTE: Pixels = np.array([COLOURS[name] for name in _NAMES], dtype=np.float32)


@dataclass(frozen=True)
class Blob:
    """One piece of foreground: its mask cut to its box, where the box lies, and its colours' shares."""

    mask: Mask
    left: int
    top: int
    shares: dict[str, float]

    @property
    def area(self) -> int:
        """How many pixels it covers."""
        return int(np.count_nonzero(self.mask))

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its box, in pixels."""
        return self.left + self.mask.shape[1] / 2, self.top + self.mask.shape[0] / 2

    @property
    def longest(self) -> int:
        """The longer side of its box, in pixels."""
        return int(max(self.mask.shape))


def find_blobs(image: Image.Image) -> tuple[str | None, list[Blob]]:
    """The background's colour, or none when it has no one colour, and the objects, largest first."""
    pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    border = np.concatenate([pixels[:2].reshape(-1, 3), pixels[-2:].reshape(-1, 3), *_columns(pixels)])
    background = np.median(border, axis=0)
    shares = colour_shares(border)
    name = max(shares, key=lambda colour: shares[colour])
    foreground = np.linalg.norm(pixels - background, axis=-1) > DIFFERS
    smallest = SMALLEST_SHARE * foreground.size
    pieces = [piece for piece in _pieces(foreground) if len(piece) >= smallest]
    blobs = [_blob(pixels, background, piece) for piece in pieces]
    blobs.sort(key=lambda blob: -blob.area)
    return (name if shares[name] > 0.75 else None), blobs


def colour_shares(pixels: Pixels) -> dict[str, float]:
    """The share of these pixels that is nearest to each colour of the palette."""
    distances = np.linalg.norm(pixels[:, None, :] - _PALETTE[None], axis=-1)
    counts = np.bincount(distances.argmin(axis=1), minlength=len(_NAMES)) / max(1, len(pixels))
    return dict(zip(_NAMES, counts.tolist(), strict=True))


def _columns(pixels: Pixels) -> tuple[Pixels, Pixels]:
    return pixels[:, :2].reshape(-1, 3), pixels[:, -2:].reshape(-1, 3)


def _pieces(foreground: Mask) -> list[npt.NDArray[np.intp]]:
    """The connected pieces, each as rows and columns; corners connect."""
    waiting = {(int(y), int(x)) for y, x in np.argwhere(foreground)}
    pieces = []
    while waiting:
        stack = [waiting.pop()]
        piece = []
        while stack:
            y, x = stack.pop()
            piece.append((y, x))
            for near in _around(y, x):
                if near in waiting:
                    waiting.remove(near)
                    stack.append(near)
        pieces.append(np.array(piece))
    return pieces


def _around(y: int, x: int) -> list[tuple[int, int]]:
    return [(y + down, x + right) for down in (-1, 0, 1) for right in (-1, 0, 1)]


def _blob(pixels: Pixels, background: Pixels, piece: npt.NDArray[np.intp]) -> Blob:
    """Cut a piece out along the line where it is half background."""
    inside = np.zeros(pixels.shape[:2], dtype=bool)
    inside[piece[:, 0], piece[:, 1]] = True
    step = np.median(pixels[_inner(inside)], axis=0) - background
    cover = (pixels - background) @ step / max(1.0, float(step @ step))
    solid = inside & (cover > 0.5)
    if not solid.any():
        solid = inside
    rows, columns = np.flatnonzero(solid.any(axis=1)), np.flatnonzero(solid.any(axis=0))
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    shares = colour_shares(pixels[_inner(inside)])
    return Blob(solid[box], int(columns[0]), int(rows[0]), shares)


def _inner(mask: Mask) -> Mask:
    """The mask without its outermost pixels, which are mixed with the background, if any are left."""
    inner = mask.copy()
    padded = np.pad(mask, 1)
    for down in (0, 1, 2):
        for right in (0, 1, 2):
            inner &= padded[down : down + mask.shape[0], right : right + mask.shape[1]]
    return inner if inner.sum() >= 6 else mask
